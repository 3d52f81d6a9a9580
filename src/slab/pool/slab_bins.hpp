// One bin for each class and arena, and one for each class and type number, which lives until reset(): a slab's owner
// is never gone. Arena i belongs to node i modulo the number of nodes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/thread_annotations.hpp"
#include "slab/pool/slab_bin.hpp"

namespace holdfast::slab {

inline constexpr unsigned maximum_arenas = 64;

struct typed_bin : slab_bin {
    std::vector<std::uint32_t> waiting HF_GUARDED_BY(mutex);  ///< granules found at open; loaded ones may remain
    /// So many at the front were tried in this pass without space for their bitmaps.
    std::size_t refused HF_GUARDED_BY(mutex) = 0;
    typed_bin* next = nullptr;
};

/// Thread-safe, except for reset(). No other lock is taken while its own is held.
class slab_bins {
public:
    /// Makes an arena for each core. May throw std::bad_alloc.
    void reset(unsigned nodes);

    [[nodiscard]] unsigned arenas() const noexcept { return arenas_; }
    /// Of the `turn`-th thread, on this node of so many.
    [[nodiscard]] unsigned arena_of_thread(unsigned node, unsigned machine_nodes, unsigned turn) const noexcept;
    [[nodiscard]] slab_bin& of(unsigned arena, unsigned class_index) const noexcept {
        return bins_[arena * class_count + class_index];
    }
    [[nodiscard]] unsigned count() const noexcept { return arenas_ * class_count; }
    [[nodiscard]] slab_bin& operator[](unsigned number) const noexcept { return bins_[number]; }

    /// Null where there was never such a slab.
    [[nodiscard]] typed_bin* find_typed(unsigned class_index, std::uint32_t type) noexcept HF_EXCLUDES(typed_mutex_);
    /// May throw std::bad_alloc.
    [[nodiscard]] typed_bin& typed(unsigned class_index, std::uint32_t type) HF_EXCLUDES(typed_mutex_);
    template <class Act>
    void for_each(Act act) const {
        for (unsigned i = 0; i < count(); ++i) {
            act(bins_[i]);
        }
        for (typed_bin* each = first_typed_.load(std::memory_order_acquire); each != nullptr; each = each->next) {
            act(*each);
        }
    }

private:
    unsigned nodes_ = 1;
    unsigned arenas_ = 0;
    std::unique_ptr<slab_bin[]> bins_;
    base::mutex typed_mutex_;
    std::unordered_map<std::uint64_t, std::unique_ptr<typed_bin>> typed_bins_ HF_GUARDED_BY(typed_mutex_);
    std::atomic<typed_bin*> first_typed_{nullptr};  ///< only grows, so it is walked without the lock
};

}  // namespace holdfast::slab
