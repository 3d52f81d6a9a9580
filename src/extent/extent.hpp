// The interface of the layer extent: runs of 4 KiB pages.
//
// The page entries (segment_format.hpp) are the truth: the entry at the first page of each extent says how long it is
// and what it is for. All extents together tile the user space up to the frontier. Everything else is an index in DRAM,
// rebuilt at open. The invariants are EXT-1 to EXT-9 (extent_check.hpp).
//
// Allocation is best fit, the lowest address among equals. A freed extent is united with its free neighbours at once.
// Where nothing fits, the space grows, and a free extent at its end counts toward what is asked for.
//
// Free pages are backed (they have space on disk) or holes, or it is not known which, as after open(). Freed pages are
// backed, and decay: decay.hpp says how many may stay; the others are given back, the oldest extents first.
//
// extent_allocator is the face. It has the lock and says in which order its parts work:
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

/// The largest alignment, in pages: 2 MiB.
inline constexpr std::uint64_t maximum_alignment = segment::region_size / base::page_size;

/// For a walk whose caller wants to see nothing.
inline constexpr auto look_at_nothing = [](const extent&) {};

/// Hands out and takes back extents of one heap. One of format() and open() comes first. Thread-safe.
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

    /// Says that segments belong to so many nodes of the machine by turns. Comes before format() or open().
    void set_nodes(std::uint32_t nodes) noexcept HF_NO_THREAD_SAFETY_ANALYSIS { map_.set_nodes(nodes); }
    [[nodiscard]] std::uint32_t nodes() const noexcept { return unlocked().layout().nodes; }
    [[nodiscard]] std::uint32_t node_of(base::pages page) const noexcept { return unlocked().layout().node_of(page); }

    /// Writes the page entries of a new heap: the roots, the rest free. The caller has grown its first region.
    [[nodiscard]] base::result<void> format();

    /// Reads the page entries of [0, frontier), checks EXT-1 to EXT-5 and builds the index. Calls `each` for every
    /// extent that is not free, in order of address; reserved extents are free. Writes nothing to the heap. Time:
    /// proportional to the number of extents. Fails with corrupt. May throw std::bad_alloc.
    [[nodiscard]] base::result<void> open(base::pages frontier, visitor each = look_at_nothing);
    /// Comes after open(), before any other change: writes that reserved extents are free; snapshots have some. In a
    /// heap that is mapped shared these are many stores, of which a crash may keep any: the next open must then call
    /// recover().
    void write_opened() noexcept;
    /// Opens after a crash in durability `atomic`: believes only the page entries of used extents, slabs and roots, and
    /// writes all others anew. Calls `each` for slabs alone. Time: proportional to the number of extents and to the
    /// free pages; several threads read a large heap, each a part. `parts`: 0: chosen by the machine and the heap's
    /// size. May throw std::bad_alloc.
    [[nodiscard]] base::result<void> recover(base::pages frontier, visitor each, unsigned parts = 0);

    /// An extent of `length` pages at a multiple of `alignment` (a power of two of pages, up to maximum_alignment).
    /// Fails with invalid_argument, with limit where the reservation is too small, and as space_growth::grow() does.
    /// `type`: of a used extent, below segment::type_limit. `node`: its segments are tried first, then a new segment of
    /// it, then other nodes (PMAlloc 6.1); an extent longer than a segment lies on several nodes.
    [[nodiscard]] base::result<base::pages> allocate(base::pages length, base::pages alignment,
                                                     segment::extent_kind kind, std::uint32_t type = 0,
                                                     std::uint32_t node = any_node);

    /// Frees the extent of that kind (used, slab or reserved) that starts there. Anything else fails with bad_address,
    /// and nothing is changed. `backed`: all of it has space on disk; otherwise this is unknown, as after open().
    [[nodiscard]] base::result<void> free(base::pages start, segment::extent_kind kind = segment::extent_kind::used,
                                          bool backed = true);
    /// Makes the used extent that starts there `wanted` pages long, without moving it. False, and nothing is changed,
    /// where none starts there or the space behind it is too small: the caller then moves it. May throw std::bad_alloc,
    /// with nothing changed.
    [[nodiscard]] bool resize(base::pages start, base::pages wanted);
    /// Reserves space on disk for pages of an extent that is in use, some of which may have none. The caller owns the
    /// extent. Where the disk is full, free extents make room, as for an allocation. Fails as space_growth::take_back()
    /// does: then some pages may have space and some none, as before.
    [[nodiscard]] base::result<void> back_used(base::pages start, base::pages length);

    /// The caller's reserved extent, which is a granule, is a slab from here on.
    void slab_made(base::pages start) noexcept;
    /// Durability `atomic`: the caller has written, after a durable record, that the extent of a slab is reserved and
    /// will be freed; counts it so. Used and reserved extents are counted together.
    void slab_withdrawn() noexcept;

    // --- for caches of free extents, which are reserved on media (extent_cache.hpp) ---------------------------------

    /// `callback` is called, without a lock held, before the heap grows: it frees the extents that caches keep. To be
    /// set before any thread uses this object, or after the last. `callback` must outlive this object or be removed
    /// with {}.
    void set_reclaim_callback(std::optional<base::function_ref<void()>> callback) noexcept {
        reclaim_callback_ = callback;
    }
    /// Takes up to out.size() reserved extents of `length` pages under one lock, side by side where the best fit is
    /// longer than one of them. 0 where there is none: allocate() then says why.
    [[nodiscard]] std::size_t allocate_some(base::pages length, std::span<base::pages> out,
                                            std::uint32_t node = any_node) noexcept;
    /// Fills `out` with reserved extents of `length` pages, each of which begins where the one before ends, the first
    /// at a multiple of `alignment`. Fails as one allocate() of their total length does.
    [[nodiscard]] base::result<void> allocate_adjacent(base::pages length, base::pages alignment,
                                                       std::span<base::pages> out, std::uint32_t node = any_node);
    /// Frees reserved extents under one lock. Changes the order of the span. Leaves an extent alone whose page entry
    /// does not say that it is reserved and of that length; check() names it.
    void free_some(std::span<extent> some) noexcept;
    /// Makes the used extent of `least` to `most` pages that starts there reserved, for the caller. Lock-free; of two
    /// calls at once, one gets it. Nothing where it is no such extent, or where a change in progress hides that: free()
    /// then decides.
    [[nodiscard]] std::optional<extent> claim(base::pages start, base::pages least,
                                              base::pages most) noexcept HF_NO_THREAD_SAFETY_ANALYSIS {
        return map_.claim(start, least, most);  // without the lock, as extent_map allows
    }
    /// Makes a reserved extent of the caller a used one.
    void hand_out(base::pages start, base::pages length, std::uint32_t type) noexcept {
        entries().store(start, {segment::extent_kind::used, length, type});
    }
    /// Whether the page entry says that a reserved extent of that length starts there.
    [[nodiscard]] bool is_reserved(base::pages start, base::pages length) const noexcept {
        return entries().is_reserved(start, length);
    }
    /// The time by the clock of space_reclaimer::set_decay(); 0 where there is none.
    [[nodiscard]] std::uint64_t now() const noexcept HF_NO_THREAD_SAFETY_ANALYSIS { return decay_.now(); }
    /// Whether free memory must be given back at once, so that nobody may keep it.
    [[nodiscard]] bool fades_at_once() const noexcept HF_NO_THREAD_SAFETY_ANALYSIS { return decay_.at_once(); }

    /// The page entries, for those who read or rebuild them without an index: before open(), or while no other thread
    /// uses this object.
    [[nodiscard]] const page_entries& entries() const noexcept { return unlocked().entries(); }
    /// The part that gives space back to the file system.
    [[nodiscard]] space_reclaimer& space() noexcept { return space_; }

    /// The extent that starts at this page, if one does. Lock-free.
    [[nodiscard]] std::optional<segment::page_entry> find(base::pages start) const { return unlocked().find(start); }
    /// The extent that contains this page; nothing beyond the frontier. Time: proportional to the extent's length / 64;
    /// for messages and conservative searches.
    [[nodiscard]] std::optional<extent> containing(base::pages page) const;

    /// The end of the space that extents tile.
    [[nodiscard]] base::pages frontier() const noexcept { return unlocked().frontier(); }
    /// Pages of the largest free extent.
    [[nodiscard]] base::pages largest_free() const;
    /// Pages of all free extents together.
    [[nodiscard]] base::pages free_pages() const;
    /// Number of extents of a kind. Time for used and reserved ones: proportional to the number of all extents.
    [[nodiscard]] std::uint64_t count(segment::extent_kind kind) const;

    /// Calls `each` for all extents (all free extents) in order of address. No lock is held during `each`, which may
    /// allocate and free. Extents that come or go during the walk may be missed.
    void for_each(visitor each) const;
    void for_each_free(visitor each) const;

    /// As extent_checker::check_entries() and extent_checker::check().
    [[nodiscard]] base::result<void> check_entries(base::pages first, base::pages count) const;
    void check(std::vector<std::string>& problems) const;

private:
    /// For what extent_map allows at any time, without the lock.
    [[nodiscard]] const extent_map& unlocked() const noexcept HF_NO_THREAD_SAFETY_ANALYSIS { return map_; }
    template <class Take>
    [[nodiscard]] std::invoke_result_t<Take, const free_index::placement&> take_at_place(base::pages length,
                                                                                         base::pages alignment,
                                                                                         std::uint32_t node, Take take);

    // The map comes first: threads read the beginning of it without the lock, so the lock is on another cache line.
    extent_map map_ HF_GUARDED_BY(mutex_);
    mutable base::mutex mutex_;
    segment::space_growth& growth_;
    disk_space disk_ HF_GUARDED_BY(mutex_);
    heap_end end_ HF_GUARDED_BY(mutex_);
    extent_places places_ HF_GUARDED_BY(mutex_);
    extent_decay decay_ HF_GUARDED_BY(mutex_);
    space_reclaimer space_;                                ///< takes the lock itself
    std::vector<extent> unwritten_ HF_GUARDED_BY(mutex_);  ///< free, but media say that parts of them are reserved
    std::optional<base::function_ref<void()>> reclaim_callback_;
};

}  // namespace holdfast::extent
