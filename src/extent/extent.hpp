// The interface of the layer extent: runs of 4 KiB pages.
//
// The page entries (segment_format.hpp) are the truth: the entry at the first page of each extent says how long it is
// and what it is for. All extents together tile the user space up to the frontier. Everything else is an index in DRAM,
// rebuilt at open. Each change of an entry is one 8-byte store, in an order in which every prefix of the stores leaves
// a tiling of the space; entries inside an extent mean nothing. The invariants are EXT-1 to EXT-9 (extent_check.hpp).
//
// Allocation is best fit, the lowest address among equals. A freed extent is united with its free neighbours at once.
// Where nothing fits, the space grows, and a free extent at its end counts toward what is asked for.
//
// Free pages are backed (they have space on disk) or holes, or it is not known which, as after open(). Freed pages are
// backed, and decay: decay.hpp says how many may stay; the others are given back, the oldest extents first. Pages that
// are not known to be backed are reserved on disk before they are handed out, so that a full disk is an error and never
// a SIGBUS. Where the disk is full, free extents are given back whatever their age, and the allocation is tried again
// (PAllocator 4.6).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/sparse_table.hpp"
#include "base/thread_annotations.hpp"
#include "base/units.hpp"
#include "extent/decay.hpp"
#include "extent/extent_check.hpp"
#include "extent/free_index.hpp"
#include "extent/page_bits.hpp"
#include "persist/mutant.hpp"
#include "segment/space.hpp"

namespace holdfast::extent {

/// The largest alignment, in pages: 2 MiB.
inline constexpr std::uint64_t maximum_alignment = segment::region_size / base::page_size;

/// An extent of at least this length is huge: its space goes back when it is freed (16 MiB).
inline constexpr base::pages huge_length{16 * base::mebibyte / base::page_size};

/// For a node that an extent should be on: any.
inline constexpr std::uint32_t any_node = ~std::uint32_t{0};

/// Hands out and takes back extents of one heap. One of format() and open() comes first. Thread-safe.
class extent_allocator {
public:
    using visitor = base::function_ref<void(const extent&)>;

    extent_allocator(segment::space_view space, segment::space_growth& growth) noexcept
        : space_(space), growth_(growth) {}
    extent_allocator(const extent_allocator&) = delete;
    extent_allocator& operator=(const extent_allocator&) = delete;
    ~extent_allocator() = default;

    /// Says that segments belong to so many nodes of the machine by turns. Comes before format() or open().
    void set_nodes(std::uint32_t nodes) noexcept { layout_ = {nodes, {space_.shape().pages()}}; }
    [[nodiscard]] std::uint32_t nodes() const noexcept { return layout_.nodes; }
    [[nodiscard]] std::uint32_t node_of(base::pages page) const noexcept { return layout_.node_of(page); }

    /// Writes the page entries of a new heap: the roots, the rest free. The caller has grown its first region.
    [[nodiscard]] base::result<void> format();

    /// Reads the page entries of [0, frontier), checks EXT-1 to EXT-5 and builds the index. Calls `each` for every
    /// extent that is not free, in order of address; reserved extents are free. Writes nothing to the heap. Time:
    /// proportional to the number of extents. Fails with corrupt. May throw std::bad_alloc.
    [[nodiscard]] base::result<void> open(base::pages frontier, visitor each);
    [[nodiscard]] base::result<void> open(base::pages frontier);
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

    /// `fetch` is called, without a lock held, before the heap grows: it frees the extents that caches keep. To be set
    /// before any thread uses this object, or after the last. `fetch` must outlive this object or be removed with {}.
    void set_hoard(std::optional<base::function_ref<void()>> fetch) noexcept { fetch_hoard_ = fetch; }
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
    [[nodiscard]] std::optional<extent> claim(base::pages start, base::pages least, base::pages most) noexcept;
    /// Makes a reserved extent of the caller a used one.
    void hand_out(base::pages start, base::pages length, std::uint32_t type) noexcept;
    /// Whether the page entry says that a reserved extent of that length starts there.
    [[nodiscard]] bool is_reserved(base::pages start, base::pages length) const noexcept;
    /// The time by the clock of set_decay(); 0 where there is none.
    [[nodiscard]] std::uint64_t now() const noexcept { return clock_ == nullptr ? 0 : clock_(); }

    /// Calls `each` for the extents that recover() would believe, in order of address: used extents, slabs, the roots.
    /// Reads only page entries: before open(), or while no other thread uses this object. Fails as open() does.
    [[nodiscard]] base::result<void> read_blocks(base::pages frontier, visitor each) const;
    /// Does what recover() does to the page entries.
    [[nodiscard]] base::result<void> rebuild(base::pages frontier) const;

    // --- space that goes back ---------------------------------------------------------------------------------------

    /// `settled` is asked before space goes back: whether nothing that was recorded so far will still be written back.
    /// In durability `atomic` a checkpoint flushes lines; a flush of a line in a hole takes disk space, and is a SIGBUS
    /// where there is none. No space goes back while the answer is no. Comes before the first free; `settled` must
    /// outlive this object.
    void set_settling(base::function_ref<bool()> settled) noexcept { settled_ = settled; }
    /// Sets how free memory decays; `clock`: nanoseconds, monotonic. Comes before the first free. May throw
    /// std::bad_alloc.
    using clock_function = std::uint64_t (*)() noexcept;
    void set_decay(std::uint64_t total_ns, clock_function clock);
    [[nodiscard]] bool fades_at_once() const noexcept { return fades_at_once_; }
    /// Gives back what has decayed since the last call, but at most `most` extents: free() does so by itself. Does
    /// nothing where a commit gives back.
    void decay(std::uint64_t most) noexcept;
    /// Gives back free extents of any age, the oldest first, until it has given back `wanted` pages. Returns the pages
    /// given back. Fails as the file system does. Does nothing where a commit gives back.
    [[nodiscard]] base::result<base::pages> give_back(base::pages wanted);
    /// For a commit, which gives back itself: the free extents that have decayed, those of at least huge_length, and
    /// with `all` every one that may have space. May throw std::bad_alloc.
    [[nodiscard]] std::vector<extent> to_give_back(bool all);
    /// Comes after these extents were given back. They must not have been allocated meanwhile.
    void gave_back(const std::vector<extent>& gone) noexcept;
    /// Makes the heap end where the free extent at its end begins, except for `keep` pages of it. `settled`, asked
    /// under the lock, says whether nothing that a recovery reads refers to free space any more. Returns the pages by
    /// which the heap became shorter; 0 where it cannot.
    [[nodiscard]] base::result<base::pages> shrink(base::pages keep, base::function_ref<bool()> settled);
    /// Shortens the space for a commit that will shorten the heap. unshrink() where the commit failed.
    [[nodiscard]] base::pages shrink_for_commit(base::pages keep) noexcept;
    void unshrink() noexcept;
    /// Calls `each`, under the lock, for free extents that may have space, the oldest first. After open() these are all
    /// free extents, in order of address. Faster than for_each_free().
    void for_each_backed(visitor each) const;
    /// Pages of free extents that are not known to be holes.
    [[nodiscard]] base::pages backed_free_pages() const;

    /// The extent that starts at this page, if one does. Lock-free.
    [[nodiscard]] std::optional<segment::page_entry> find(base::pages start) const;
    /// The extent that contains this page; nothing beyond the frontier. Time: proportional to the extent's length / 64;
    /// for messages and conservative searches.
    [[nodiscard]] std::optional<extent> containing(base::pages page) const;

    /// The end of the space that extents tile.
    [[nodiscard]] base::pages frontier() const noexcept { return {frontier_.load(std::memory_order_acquire)}; }
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

    /// For a commit that writes these page entries: fails with corrupt where one differs from the index, or breaks
    /// EXT-1 to EXT-6. Time: proportional to `count`, and to the length / 64 of the extents that begin there.
    [[nodiscard]] base::result<void> check_entries(base::pages first, base::pages count) const;
    /// Appends a sentence for every invariant that does not hold. Other threads must stand still.
    void check(std::vector<std::string>& problems) const;

private:
    [[nodiscard]] std::uint64_t load(base::pages page) const noexcept;
    void store(base::pages page, segment::page_entry entry) const noexcept;
    void add(const extent& added) noexcept HF_REQUIRES(mutex_);
    void add_free(const free_index::run& added) noexcept HF_REQUIRES(mutex_);
    void remove(base::pages start, segment::extent_kind kind) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] free_index::run remove_free(base::pages start) noexcept HF_REQUIRES(mutex_);
    template <class Each>
    [[nodiscard]] base::result<void> walk(base::pages frontier, Each each) const;
    template <class Block, class Gap>
    [[nodiscard]] base::result<void> walk_blocks(base::pages begin, base::pages end, base::pages frontier, Block block,
                                                 Gap gap) const;
    struct recovered_part;
    void recover_part(recovered_part& part, base::pages frontier);
    [[nodiscard]] base::result<void> join_parts(std::vector<recovered_part>& parts, base::pages frontier, visitor each)
        HF_REQUIRES(mutex_);
    [[nodiscard]] base::pages next_block(base::pages from, base::pages end) const noexcept;
    void write_gap(base::pages start, base::pages length) const noexcept;
    [[nodiscard]] base::result<void> begin(base::pages frontier) HF_REQUIRES(mutex_);
    [[nodiscard]] bool starts_at(base::pages page) const noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] bool starts_at_now(base::pages page) const noexcept;
    void carve_some(const free_index::placement& place, base::pages length, std::span<base::pages> out) noexcept
        HF_REQUIRES(mutex_);
    void free_neighbours(std::span<const extent> run) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] bool is_due() noexcept HF_REQUIRES(mutex_);
    void decay_if(bool due) noexcept;
    [[nodiscard]] static std::size_t counter_of(segment::extent_kind kind) noexcept;
    [[nodiscard]] base::result<void> reset() HF_REQUIRES(mutex_);
    [[nodiscard]] base::result<void> grow_for(base::pages length, base::pages alignment) HF_REQUIRES(mutex_);
    [[nodiscard]] bool grow_on(std::uint32_t node, base::pages length, base::pages alignment) HF_REQUIRES(mutex_);
    void adopt(base::pages new_frontier, bool backed, base::pages skipped = {}) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] bool is_local(std::uint32_t node, base::pages length) const noexcept {
        return node != any_node && layout_.nodes > 1 && length <= layout_.segment;
    }
    [[nodiscard]] std::optional<free_index::placement> free_place(base::pages length, base::pages alignment,
                                                                  std::uint32_t node) const noexcept
        HF_REQUIRES(mutex_);
    [[nodiscard]] base::result<free_index::placement> find_place(base::pages length, base::pages alignment,
                                                                 std::uint32_t node) HF_REQUIRES(mutex_);
    [[nodiscard]] std::size_t allocate_some_at(const free_index::placement& place, base::pages length,
                                               std::span<base::pages> out, std::uint32_t node) HF_REQUIRES(mutex_);
    [[nodiscard]] base::pages carve(const free_index::placement& place, segment::page_entry wanted) HF_REQUIRES(mutex_);
    [[nodiscard]] base::result<void> back(const free_index::placement& place, base::pages length) HF_REQUIRES(mutex_);
    [[nodiscard]] base::result<free_index::placement> backed_place(const free_index::placement& place,
                                                                   base::pages length, base::pages alignment)
        HF_REQUIRES(mutex_);
    [[nodiscard]] std::optional<free_index::placement> find_backed(base::pages length, base::pages alignment) const
        HF_REQUIRES(mutex_);
    [[nodiscard]] base::result<void> back_range(base::pages whole, base::pages from, base::pages end)
        HF_REQUIRES(mutex_);
    void give_back_part(base::pages whole, base::pages from, base::pages end) HF_REQUIRES(mutex_);
    [[nodiscard]] bool make_space(base::pages wanted, base::pages spared) HF_REQUIRES(mutex_);
    void note_backed(base::pages start, base::pages length) noexcept HF_REQUIRES(mutex_);
    void note_hole(base::pages start, base::pages length) noexcept HF_REQUIRES(mutex_);
    void unite(const free_index::run& one) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] bool extend(base::pages start, const segment::page_entry& now, base::pages wanted)
        HF_REQUIRES(mutex_);
    [[nodiscard]] bool trim(base::pages start, const segment::page_entry& now, base::pages wanted) noexcept
        HF_REQUIRES(mutex_);
    [[nodiscard]] bool change_length(base::pages start, const segment::page_entry& now, base::pages wanted) noexcept;
    [[nodiscard]] base::result<free_index::run> free_locked(base::pages start, segment::extent_kind kind, bool backed)
        HF_REQUIRES(mutex_);
    [[nodiscard]] bool may_go() const noexcept {
        return !settled_ || HF_MUTANT("extent.give_back.settle") || (*settled_)();
    }
    [[nodiscard]] bool give_back_reserved(const free_index::run& taken) noexcept;
    [[nodiscard]] free_index::run reserve_backed_end(const free_index::run& from) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] bool give_back_oldest(bool faded_only) noexcept HF_REQUIRES(giving_back_);
    [[nodiscard]] base::pages shorter(base::pages keep) const noexcept HF_REQUIRES(mutex_);
    void end_at(base::pages to) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] std::optional<base::failure> refusal(base::pages start, segment::extent_kind kind) const
        HF_REQUIRES(mutex_);
    [[nodiscard]] std::size_t copy_some(base::pages& position, std::array<extent, 128>& some) const HF_EXCLUDES(mutex_);
    void check_interiors(const extent& of, std::vector<std::string>& problems) const;
    void check_holes(const extent& of, base::pages& holes, std::vector<std::string>& problems) const
        HF_REQUIRES(mutex_);
    void check_index(const extent& of, std::vector<std::string>& problems) const HF_REQUIRES(mutex_);

    segment::space_view space_;
    segment::space_growth& growth_;
    node_layout layout_;
    std::atomic<std::uint64_t> frontier_{0};
    mutable base::mutex mutex_;
    free_index free_ HF_GUARDED_BY(mutex_);
    /// One bit for each page: an extent starts here. Entries elsewhere are never believed, whatever media say.
    page_bits starts_ HF_GUARDED_BY(mutex_);               ///< starts_at_now() reads without it
    page_bits backed_ HF_GUARDED_BY(mutex_);               ///< known to have space on disk; only free pages
    page_bits holes_ HF_GUARDED_BY(mutex_);                ///< known to have none
    std::vector<extent> unwritten_ HF_GUARDED_BY(mutex_);  ///< free, but media say that parts of them are reserved
    decay_curve decay_ HF_GUARDED_BY(mutex_);
    std::uint64_t may_stay_ HF_GUARDED_BY(mutex_) = 0;  ///< backed free pages, after the last step of decay
    base::pages given_back_ HF_GUARDED_BY(mutex_){};    ///< since the start
    clock_function clock_ = nullptr;
    bool fades_at_once_ = false;
    std::optional<base::function_ref<bool()>> settled_;
    std::optional<base::function_ref<void()>> fetch_hoard_;
    std::atomic<bool> behind_{false};                              ///< more has decayed than was given back
    base::mutex giving_back_;                                      ///< one thread at a time; taken before mutex_
    std::array<std::uint64_t, 6> counts_ HF_GUARDED_BY(mutex_){};  ///< by counter_of()
};

}  // namespace holdfast::extent
