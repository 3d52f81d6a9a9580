// Blocks of constructed objects, which only destroy() frees, and those that are pinned for devices. In a loaded slab
// their state is block_state::pinned; elsewhere this set decides.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <utility>

#include "base/mutex.hpp"
#include "base/units.hpp"

namespace holdfast::slab {

using pin_place = std::set<std::uint64_t>::node_type;

/// Thread-safe. No other lock is taken while its own is held.
class pinned_blocks {
public:
    /// May throw std::bad_alloc; add() and remove() do not.
    [[nodiscard]] static pin_place make_place() {
        std::set<std::uint64_t> one{0};
        return one.extract(one.begin());
    }
    void add(std::uint64_t offset, pin_place place) noexcept {
        place.value() = offset;
        const base::scoped_lock lock(mutex_);
        const std::size_t before = offsets_.size();
        offsets_.insert(offsets_.end(), std::move(place));
        if (offsets_.size() != before && may_be_pages(offset)) {
            pages_.fetch_add(1, std::memory_order_release);
        }
    }
    /// Empty: it was not pinned.
    [[nodiscard]] pin_place remove(std::uint64_t offset) noexcept {
        const base::scoped_lock lock(mutex_);
        pin_place place = offsets_.extract(offset);
        if (!place.empty() && may_be_pages(offset)) {
            pages_.fetch_sub(1, std::memory_order_release);
        }
        return place;
    }
    [[nodiscard]] bool contains(std::uint64_t offset) const noexcept {
        const base::scoped_lock lock(mutex_);
        return offsets_.contains(offset);
    }
    /// Takes no lock while no block of whole pages is pinned.
    [[nodiscard]] bool contains_pages(std::uint64_t offset) const noexcept {
        return pages_.load(std::memory_order_acquire) != 0 && contains(offset);
    }
    template <class Each>
    void for_each(std::uint64_t begin, std::uint64_t end, Each&& each) const noexcept {
        const base::scoped_lock lock(mutex_);
        for (auto at = offsets_.lower_bound(begin); at != offsets_.end() && *at < end; ++at) {
            each(*at);
        }
    }
    void clear() noexcept {
        const base::scoped_lock lock(mutex_);
        offsets_.clear();
        pages_.store(0, std::memory_order_release);
    }

private:
    [[nodiscard]] static constexpr bool may_be_pages(std::uint64_t offset) noexcept {
        return offset % base::page_size == 0;
    }

    mutable base::mutex mutex_;
    std::set<std::uint64_t> offsets_ HF_GUARDED_BY(mutex_);
    std::atomic<std::uint64_t> pages_{0};  ///< at the start of a page
};

}  // namespace holdfast::slab
