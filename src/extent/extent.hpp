// Runs of 4 KiB pages: allocation by best fit, the lowest address among equals; freed extents are united with their
// free neighbours at once. The page entries are the truth, but for extents that another node frees
// (remote_extents.hpp). All else is an index in DRAM, rebuilt at open. Invariants: EXT-1 to EXT-10
// (page_entries.hpp).
//
// Free pages are backed (they have space on disk) or holes, or it is not known which. Freed pages are backed, and
// decay.
//
// extent_allocator has the lock and orders the work of its parts:
//
//   page_entries      the words on media                extent_places     the place for an allocation
//   extent_index      what starts where, what is free   disk_space        space on disk before pages are used
//   page_backing      which free pages have space       heap_end          growth, and a lower end
//   extent_map        these three, changed together     extent_decay      how many free pages may keep space
//   extent_checker    EXT-1 to EXT-8                    space_reclaimer   space that goes back
//   remote_extents    what other nodes have freed
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/function_ref.hpp"
#include "base/mutex.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/decay.hpp"
#include "extent/disk_space.hpp"
#include "extent/extent_map.hpp"
#include "extent/extent_places.hpp"
#include "extent/heap_end.hpp"
#include "extent/page_entries.hpp"
#include "extent/remote_extents.hpp"
#include "extent/space_reclaimer.hpp"
#include "segment/format/space.hpp"

namespace holdfast::extent {

/// 2 MiB.
inline constexpr std::uint64_t maximum_alignment = segment::region_size / base::page_size;

inline constexpr auto inspect_nothing = [](const extent&) {};

/// One of format() and open() comes first. Thread-safe.
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
          space_(mutex_, map_, disk_, end_, decay_, growth),
          remote_(map_.entries()) {}
    extent_allocator(const extent_allocator&) = delete;
    extent_allocator& operator=(const extent_allocator&) = delete;
    ~extent_allocator() = default;

    /// Segments belong to nodes of the machine by turns. Comes before format() or open().
    void set_nodes(std::uint32_t nodes) noexcept HF_NO_THREAD_SAFETY_ANALYSIS { map_.set_nodes(nodes); }
    [[nodiscard]] std::uint32_t nodes() const noexcept { return unlocked().layout().nodes; }
    [[nodiscard]] std::uint32_t node_of(base::pages page) const noexcept { return unlocked().layout().node_of(page); }

    /// The first region of the new heap has grown.
    [[nodiscard]] base::result<void> format();

    /// Calls `each` for all extents that are not free, in order of address; reserved ones become free. Writes nothing
    /// to the heap. Fails with corrupt. May throw std::bad_alloc.
    [[nodiscard]] base::result<void> open(base::pages frontier, visitor each = inspect_nothing);
    /// Writes that reserved extents are free, before any other change. In a heap that is mapped shared a crash may keep
    /// any of these stores: the next open must then call recover().
    void write_opened() noexcept;
    /// As write_opened(), for a reader: take_back_opened() undoes it, and a later call does it again. May throw
    /// std::bad_alloc, and then stores nothing.
    friend void show_opened(extent_allocator& of);
    /// Entries are again as the version has them: what the next one has changed is laid over them.
    friend void take_back_opened(extent_allocator& of) noexcept;
    /// After a crash in durability `atomic`: believes only the entries of used extents, slabs and roots, and writes all
    /// others anew. Calls `each` for slabs alone. `parts` threads share the work; 0: chosen here. Fails as open().
    [[nodiscard]] base::result<void> recover(base::pages frontier, visitor each, unsigned parts = 0);

    /// `alignment`: a power of two, up to maximum_alignment. `type`: of a used extent, below segment::type_limit.
    /// `node`: its segments are tried first, then a new one, then other nodes (PMAlloc 6.1). Fails with
    /// invalid_argument, with limit where the reservation is too small, and as space_growth::grow() does.
    [[nodiscard]] base::result<base::pages> allocate(base::pages length, base::pages alignment,
                                                     segment::extent_kind kind, std::uint32_t type = 0,
                                                     std::uint32_t node = any_node);

    /// `kind`: used, slab or reserved. `bad_address` where none starts there. `backed`: all of it has space on disk;
    /// else this is unknown.
    [[nodiscard]] base::result<void> free(base::pages start, segment::extent_kind kind = segment::extent_kind::used,
                                          bool backed = true);
    /// Changes nothing where no used extent starts there or the space behind it is too small (false), and where it
    /// throws std::bad_alloc.
    [[nodiscard]] bool resize(base::pages start, base::pages wanted);
    /// Reserves space on disk for the caller's pages. Where it fails, as space_growth::reserve_again() does, some may
    /// have space and some none, as before.
    [[nodiscard]] base::result<void> back_used(base::pages start, base::pages length);

    /// The caller has a reserved extent there.
    void slab_made(base::pages start) noexcept;
    /// Durability `atomic`: the caller has written, after a durable record, that the extent is reserved and will be
    /// freed.
    void slab_withdrawn() noexcept;

    // --- for caches, whose extents are reserved on media (extent_cache.hpp) ---

    /// `callback` frees what caches keep. It is called without a lock, before the heap grows, and outlives this object
    /// or is removed with {}. Comes while no other thread uses this object.
    void set_reclaim_callback(std::optional<base::function_ref<void()>> callback) noexcept {
        reclaim_callback_ = callback;
    }
    /// Takes up to out.size() reserved extents under one lock. 0: allocate() says why.
    [[nodiscard]] std::size_t allocate_some(base::pages length, std::span<base::pages> out,
                                            std::uint32_t node = any_node) noexcept;
    /// The extents lie side by side, the first at a multiple of `alignment`. Fails as one allocate() of their total
    /// length does.
    [[nodiscard]] base::result<void> allocate_adjacent(base::pages length, base::pages alignment,
                                                       std::span<base::pages> out, std::uint32_t node = any_node);
    /// Frees them under one lock, and changes their order. Leaves an extent alone whose page entry does not say
    /// reserved; check() names it.
    void free_some(std::span<extent> some) noexcept;
    /// Makes the used extent of `least` to `most` pages that starts there reserved, for the caller. Of two calls, one
    /// gets it. Nothing where there is none, or a change in progress hides it: free() then decides.
    [[nodiscard]] std::optional<extent> claim(base::pages start, base::pages least,
                                              base::pages most) noexcept HF_NO_THREAD_SAFETY_ANALYSIS {
        if (!remote_.active()) [[likely]] {
            return map_.claim(start, least, most);  // extent_map needs no lock for it
        }
        if (start >= unlocked().frontier() || remote_.is_taken(start)) {
            return std::nullopt;
        }
        auto claimed = map_.claim(start, least, most);
        return claimed && remote_.is_taken(start) ? std::nullopt : claimed;
    }
    /// The extent was reserved, and the caller's.
    void hand_out(base::pages start, base::pages length, std::uint32_t type) noexcept {
        entries().store(start, {segment::extent_kind::used, length, type});
    }
    [[nodiscard]] bool is_reserved(base::pages start, base::pages length) const noexcept {
        return entries().is_reserved(start, length);
    }
    [[nodiscard]] std::uint64_t now() const noexcept HF_NO_THREAD_SAFETY_ANALYSIS { return decay_.now(); }
    /// Nobody may keep free memory then.
    [[nodiscard]] bool decays_at_once() const noexcept HF_NO_THREAD_SAFETY_ANALYSIS { return decay_.at_once(); }

    /// Only before open(), or while no other thread uses this object.
    [[nodiscard]] const page_entries& entries() const noexcept { return unlocked().entries(); }
    [[nodiscard]] space_reclaimer& space() noexcept { return space_; }

    /// Lock-free.
    [[nodiscard]] std::optional<segment::page_entry> find(base::pages start) const {
        auto found = unlocked().find(start);
        if (found && found->kind == segment::extent_kind::used && remote_.active() && remote_.is_gone(start)) {
            return segment::page_entry{segment::extent_kind::reserved, found->length};
        }
        return found;
    }
    /// Nothing beyond the frontier. Time: proportional to the extent's length / 64.
    [[nodiscard]] std::optional<extent> containing(base::pages page) const;

    [[nodiscard]] base::pages frontier() const noexcept { return unlocked().frontier(); }
    [[nodiscard]] base::pages largest_free() const;
    [[nodiscard]] base::pages free_pages() const;
    /// Time for used and reserved extents: proportional to the number of all.
    [[nodiscard]] std::uint64_t count(segment::extent_kind kind) const;

    /// Calls `each` in order of address. No lock is held during `each`, which may allocate and free. Extents that come
    /// or go meanwhile may be missed.
    void for_each(visitor each) const;
    void for_each_free(visitor each) const;

    [[nodiscard]] base::result<void> check_entries(base::pages first, base::pages count) const;
    void check(std::vector<std::string>& problems) const;

private:
    friend base::result<void> admit(extent_allocator& of, base::pages more);
    friend remote_extents& remote_of(extent_allocator& of) noexcept;
    friend const remote_extents& remote_of(const extent_allocator& of) noexcept;
    /// For what needs no lock (extent_map).
    [[nodiscard]] const extent_map& unlocked() const noexcept HF_NO_THREAD_SAFETY_ANALYSIS { return map_; }
    template <class Take>
    [[nodiscard]] std::invoke_result_t<Take, const free_index::placement&> take_at_place(base::pages length,
                                                                                         base::pages alignment,
                                                                                         std::uint32_t node, Take take);

    // Threads read its beginning without the lock, which lies on another cache line.
    extent_map map_ HF_GUARDED_BY(mutex_);
    mutable base::mutex mutex_;
    segment::space_growth& growth_;
    disk_space disk_ HF_GUARDED_BY(mutex_);
    heap_end end_ HF_GUARDED_BY(mutex_);
    extent_places places_ HF_GUARDED_BY(mutex_);
    extent_decay decay_ HF_GUARDED_BY(mutex_);
    space_reclaimer space_;
    remote_extents remote_;
    std::vector<extent> unwritten_ HF_GUARDED_BY(mutex_);  ///< free, but media say that parts are reserved
    struct shown_entry {
        base::pages at;
        std::uint64_t before;
        std::uint64_t shown;
    };
    std::vector<shown_entry> shown_ HF_GUARDED_BY(mutex_);
    std::optional<base::function_ref<void()>> reclaim_callback_;
};

/// What threads of other nodes have freed.
[[nodiscard]] inline remote_extents& remote_of(extent_allocator& of) noexcept { return of.remote_; }
[[nodiscard]] inline const remote_extents& remote_of(const extent_allocator& of) noexcept { return of.remote_; }

void show_opened(extent_allocator& of);
void take_back_opened(extent_allocator& of) noexcept;

/// As space_growth::admit().
[[nodiscard]] inline base::result<void> admit(extent_allocator& of, base::pages more) { return of.growth_.admit(more); }

}  // namespace holdfast::extent
