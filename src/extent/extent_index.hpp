// At which pages extents start, and which are free, in DRAM. Those who change the index store the page entries (EXT-7),
// in the order that extent_map.hpp gives.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/extent_invariants.hpp"
#include "extent/free_index.hpp"
#include "extent/page_bits.hpp"
#include "segment/format/segment_format.hpp"

namespace holdfast::extent {

/// The caller holds a lock, except for starts_at(). Threads may call note_start() at once if 64 pages, from a multiple
/// of 64 on, belong to one of them.
class extent_index {
public:
    /// Page entries change from used to reserved and back without the lock, so these kinds are counted together.
    class kind_counts {
    public:
        [[nodiscard]] std::uint64_t& operator[](segment::extent_kind kind) noexcept { return counts_[place(kind)]; }
        [[nodiscard]] std::uint64_t operator[](segment::extent_kind kind) const noexcept {
            return counts_[place(kind)];
        }
        void operator+=(const kind_counts& other) noexcept {
            for (std::size_t kind = 0; kind < counts_.size(); ++kind) {
                counts_[kind] += other.counts_[kind];
            }
        }
        [[nodiscard]] bool operator==(const kind_counts&) const = default;

    private:
        [[nodiscard]] static std::size_t place(segment::extent_kind kind) noexcept {
            return static_cast<std::size_t>(kind == segment::extent_kind::reserved ? segment::extent_kind::used : kind);
        }
        std::array<std::uint64_t, 6> counts_{};
    };

    /// Makes the index empty. May throw std::bad_alloc.
    [[nodiscard]] base::result<void> reset(base::pages pages, node_layout layout);

    void add(base::pages start, segment::extent_kind kind) noexcept {
        starts_.set(start);
        ++counts_[kind];
    }
    void add_free(const free_index::run& added) noexcept {
        add(added.start, segment::extent_kind::free);
        free_.insert(added);
    }
    void remove(base::pages start, segment::extent_kind kind) noexcept {
        starts_.clear(start);
        --counts_[kind];
    }
    free_index::run remove_free(base::pages start) noexcept {
        remove(start, segment::extent_kind::free);
        return free_.erase(start);
    }
    /// So many pages more are not known to be holes. The extent becomes the youngest.
    void add_backed(base::pages start, base::pages pages) noexcept;
    /// So many pages more are known to be holes. The extent becomes the youngest.
    void remove_backed(base::pages start, base::pages pages) noexcept;
    /// Returns how many pages were not known to be holes.
    base::pages remove_all_backed(base::pages start) noexcept;
    void recount(segment::extent_kind before, segment::extent_kind now) noexcept {
        --counts_[before];
        ++counts_[now];
    }

    /// add() for several threads.
    void note_start(base::pages start) noexcept { starts_.set(start); }
    void add_counts(const kind_counts& counts) noexcept { counts_ += counts; }

    /// Entries of other pages are never believed, whatever media say.
    [[nodiscard]] bool starts_at(base::pages page) const noexcept { return starts_[page]; }
    [[nodiscard]] std::optional<base::pages> last_start_up_to(base::pages page) const noexcept {
        return starts_.last_up_to(page);
    }
    [[nodiscard]] std::uint64_t starts_in(base::pages start, base::pages length) const noexcept {
        return starts_.count(start, length).value;
    }
    [[nodiscard]] const kind_counts& counts() const noexcept { return counts_; }
    [[nodiscard]] const free_index& free() const noexcept { return free_; }

private:
    free_index free_;
    page_bits starts_;
    kind_counts counts_;
};

}  // namespace holdfast::extent
