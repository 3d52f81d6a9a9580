// Runs of 4 KiB pages: allocation by best fit, the lowest address among equals; freed extents are united with their
// free neighbours at once. Where nothing fits, the space grows, and a free extent at its end counts toward what is
// asked for.
//
// The page entries are the truth (page_entries.hpp). All else is an index in DRAM, rebuilt at open. Invariants: EXT-1
// to EXT-9 (extent_check.hpp).
//
// Free pages are backed (they have space on disk) or holes, or it is not known which, as after open(). Freed pages are
// backed, and decay (decay.hpp): the oldest extents give their space back first.
//
// extent_allocator has the lock and says in which order its parts work:
//
//   page_entries      the words on media                         extent_places     the place for an allocation
//   extent_index      what starts where, what is free, in DRAM   disk_space        space on disk before pages are used
//   page_backing      which free pages have space on disk        heap_end          growth, and a lower end
//   extent_map        the three above, changed together          extent_decay      how many free pages may keep space
//   extent_checker    EXT-1 to EXT-8                             space_reclaimer   space that goes back
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/thread_annotations.hpp"
#include "base/units.hpp"
#include "extent/disk_space.hpp"
#include "extent/extent_check.hpp"
#include "extent/extent_decay.hpp"
#include "extent/extent_map.hpp"
#include "extent/extent_places.hpp"
#include "extent/heap_end.hpp"
#include "extent/page_entries.hpp"
#include "extent/space_reclaimer.hpp"
#include "segment/space.hpp"

namespace holdfast::extent {

/// 2 MiB.
inline constexpr std::uint64_t maximum_alignment = segment::region_size / base::page_size;

inline constexpr auto look_at_nothing = [](const extent&) {};

/// The extents of one heap. One of format() and open() comes first. Thread-safe.
class extent_allocator {
public:
    using visitor = extent_visitor;
    using clock_function = extent_decay::clock_function;

    extent_allocator(const segment::space_view& space, segment::space_growth& growth) noexcept
        : map_(space),
          growth_(growth),
          disk_(map_, growth),
          end_(map_, growth),
          places_(map_, disk_, end_),
          space_(mutex_, map_, disk_, end_, decay_, growth) {}
    extent_allocator(const extent_allocator&) = delete;
    extent_allocator& operator=(const extent_allocator&) = delete;
    ~extent_allocator() = default;

    /// Segments belong to so many nodes of the machine by turns. Comes before format() or open().
    void set_nodes(std::uint32_t nodes) noexcept HF_NO_THREAD_SAFETY_ANALYSIS { map_.set_nodes(nodes); }
    [[nodiscard]] std::uint32_t nodes() const noexcept { return unlocked().layout().nodes; }
    [[nodiscard]] std::uint32_t node_of(base::pages page) const noexcept { return unlocked().layout().node_of(page); }

    /// Writes the page entries of a new heap, whose first region has grown: the roots, the rest free.
    [[nodiscard]] base::result<void> format();

    /// Reads the page entries of [0, frontier), checks EXT-1 to EXT-5 and builds the index. Calls `each` for all
    /// extents that are not free, in order of address; reserved ones are free. Writes nothing to the heap. Time:
    /// proportional to the number of extents. Fails with corrupt. May throw std::bad_alloc.
    [[nodiscard]] base::result<void> open(base::pages frontier, visitor each = look_at_nothing);
    /// After open(), before any other change: writes that reserved extents are free; snapshots have some. In a heap
    /// that is mapped shared a crash may keep any of these stores: the next open must then call recover().
    void write_opened() noexcept;
    /// Opens after a crash in durability `atomic`: believes only the entries of used extents, slabs and roots, and
    /// writes all others anew. Calls `each` for slabs alone. Time: proportional to the number of extents and to the
    /// free pages, shared by threads that read a part each. `parts`: 0: chosen by the machine and the heap's size.
    /// Fails with corrupt. May throw std::bad_alloc.
    [[nodiscard]] base::result<void> recover(base::pages frontier, visitor each, unsigned parts = 0);

    /// An extent of `length` pages at a multiple of `alignment` (a power of two, up to maximum_alignment). Fails with
    /// invalid_argument, with limit where the reservation is too small, and as space_growth::grow() does. `type`: of a
    /// used extent, below segment::type_limit. `node`: its segments are tried first, then a new segment of it, then
    /// other nodes (PMAlloc 6.1); an extent longer than a segment lies on several nodes.
    [[nodiscard]] base::result<base::pages> allocate(base::pages length, base::pages alignment,
                                                     segment::extent_kind kind, std::uint32_t type = 0,
                                                     std::uint32_t node = any_node);

    /// Frees the extent of that kind (used, slab or reserved) that starts there; fails with bad_address where there is
    /// none. `backed`: all of it has space on disk; otherwise this is unknown.
    [[nodiscard]] base::result<void> free(base::pages start, segment::extent_kind kind = segment::extent_kind::used,
                                          bool backed = true);
    /// Makes the used extent that starts there `wanted` pages long, without moving it. Changes nothing where none
    /// starts there or the space behind it is too small (false), and where it throws std::bad_alloc.
    [[nodiscard]] bool resize(base::pages start, base::pages wanted);
    /// Reserves space on disk for the caller's pages, some of which may have none. Where the disk is full, free extents
    /// make room. Where it fails, as space_growth::take_back() does, some pages may have space and some none, as
    /// before.
    [[nodiscard]] base::result<void> back_used(base::pages start, base::pages length);

    /// The caller's reserved extent, a granule, is a slab now.
    void slab_made(base::pages start) noexcept;
    /// Durability `atomic`: the caller has written, after a durable record, that a slab's extent is reserved and will
    /// be freed.
    void slab_withdrawn() noexcept;

    // --- for caches of free extents, which are reserved on media (extent_cache.hpp) ---

    /// `callback` frees the extents that caches keep. It is called without a lock held, before the heap grows, and
    /// outlives this object or is removed with {}. Comes before any thread uses this object, or after the last.
    void set_reclaim_callback(std::optional<base::function_ref<void()>> callback) noexcept {
        reclaim_callback_ = callback;
    }
    /// Takes up to out.size() reserved extents of `length` pages under one lock, side by side where the best fit is
    /// longer than one of them. 0 where there is none: allocate() then says why.
    [[nodiscard]] std::size_t allocate_some(base::pages length, std::span<base::pages> out,
                                            std::uint32_t node = any_node) noexcept;
    /// Fills `out` with reserved extents of `length` pages, one behind the other, the first at a multiple of
    /// `alignment`. Fails as one allocate() of their total length does.
    [[nodiscard]] base::result<void> allocate_adjacent(base::pages length, base::pages alignment,
                                                       std::span<base::pages> out, std::uint32_t node = any_node);
    /// Frees reserved extents under one lock. Changes the order of the span. Leaves an extent alone whose page entry
    /// says something else; check() names it.
    void free_some(std::span<extent> some) noexcept;
    /// Makes the used extent of `least` to `most` pages that starts there reserved, for the caller. Lock-free; of two
    /// calls at once, one gets it. Nothing where it is no such extent, or a change in progress hides that: free() then
    /// decides.
    [[nodiscard]] std::optional<extent> claim(base::pages start, base::pages least,
                                              base::pages most) noexcept HF_NO_THREAD_SAFETY_ANALYSIS {
        return map_.claim(start, least, most);  // without the lock, as extent_map allows
    }
    /// Makes the caller's reserved extent a used one.
    void hand_out(base::pages start, base::pages length, std::uint32_t type) noexcept {
        entries().store(start, {segment::extent_kind::used, length, type});
    }
    /// Looks at the page entry alone.
    [[nodiscard]] bool is_reserved(base::pages start, base::pages length) const noexcept {
        return entries().is_reserved(start, length);
    }
    /// The time by the clock of space_reclaimer::set_decay(); 0 where there is none.
    [[nodiscard]] std::uint64_t now() const noexcept HF_NO_THREAD_SAFETY_ANALYSIS { return decay_.now(); }
    /// Whether free memory goes back at once, so that nobody may keep it.
    [[nodiscard]] bool fades_at_once() const noexcept HF_NO_THREAD_SAFETY_ANALYSIS { return decay_.at_once(); }

    /// For those who read or rebuild them without an index: before open(), or while no other thread uses this object.
    [[nodiscard]] const page_entries& entries() const noexcept { return unlocked().entries(); }
    [[nodiscard]] space_reclaimer& space() noexcept { return space_; }

    /// Lock-free.
    [[nodiscard]] std::optional<segment::page_entry> find(base::pages start) const { return unlocked().find(start); }
    /// Nothing beyond the frontier. Time: proportional to the extent's length / 64; for messages and conservative
    /// searches.
    [[nodiscard]] std::optional<extent> containing(base::pages page) const;

    /// The end of the space that extents tile.
    [[nodiscard]] base::pages frontier() const noexcept { return unlocked().frontier(); }
    [[nodiscard]] base::pages largest_free() const;
    [[nodiscard]] base::pages free_pages() const;
    /// Time for used and reserved extents: proportional to the number of all extents.
    [[nodiscard]] std::uint64_t count(segment::extent_kind kind) const;

    /// In order of address. No lock is held during `each`, which may allocate and free. Extents that come or go
    /// meanwhile may be missed.
    void for_each(visitor each) const;
    void for_each_free(visitor each) const;

    /// See extent_checker.
    [[nodiscard]] base::result<void> check_entries(base::pages first, base::pages count) const;
    void check(std::vector<std::string>& problems) const;

private:
    /// For what extent_map allows without the lock.
    [[nodiscard]] const extent_map& unlocked() const noexcept HF_NO_THREAD_SAFETY_ANALYSIS { return map_; }
    template <class Take>
    [[nodiscard]] std::invoke_result_t<Take, const free_index::placement&> take_at_place(base::pages length,
                                                                                         base::pages alignment,
                                                                                         std::uint32_t node, Take take);

    // Threads read the beginning of the map without the lock, so the lock is on another cache line.
    extent_map map_ HF_GUARDED_BY(mutex_);
    mutable base::mutex mutex_;
    segment::space_growth& growth_;
    disk_space disk_ HF_GUARDED_BY(mutex_);
    heap_end end_ HF_GUARDED_BY(mutex_);
    extent_places places_ HF_GUARDED_BY(mutex_);
    extent_decay decay_ HF_GUARDED_BY(mutex_);
    space_reclaimer space_;                                ///< takes the lock itself
    std::vector<extent> unwritten_ HF_GUARDED_BY(mutex_);  ///< free, but media say that parts are reserved
    std::optional<base::function_ref<void()>> reclaim_callback_;
};

}  // namespace holdfast::extent
