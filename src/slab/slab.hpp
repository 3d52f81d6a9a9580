// The interface of the layer slab: blocks of memory, small and big, in one allocator.
//
// Blocks of up to 16 KiB come from slabs of 64 KiB, one size class each, through a cache that each thread has for each
// heap. Larger blocks, and alignments that no class has, are extents of whole pages. Small blocks with a type number
// have slabs of their own, and no cache. The marks of its blocks, in DRAM, say what the user holds of a slab in use;
// the live bitmaps on media say it after a commit or a checkpoint. Page entries on media are always right.
//
// A small allocation looks up the class, finds the thread's cache, takes the next index from a list and stores the
// block's mark. A free finds the marks of the slab from the address, the block's mark by a multiplication, checks that
// a live block begins there, and stores the mark. Neither uses a lock, a locked instruction, a system call or a
// division, and neither touches the block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/failure.hpp"
#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/extent.hpp"
#include "extent/extent_cache.hpp"
#include "lane/effects.hpp"
#include "segment/space.hpp"
#include "slab/commit_gate.hpp"
#include "slab/plain_blocks.hpp"
#include "slab/size_classes.hpp"
#include "slab/slab_pool.hpp"
#include "slab/thread_cache.hpp"

namespace holdfast::slab {

/// The largest alignment of a block, in bytes.
inline constexpr std::uint64_t maximum_alignment = extent::maximum_alignment * base::page_size;

/// A block that was taken and is not allocated yet, or that is allocated and about to be freed. In durability `atomic`
/// the caller, who writes the durable records, changes its mark, to `live` or back to `held`, and the bits at `place`.
struct held_block {
    std::uint64_t offset = 0;
    lane::block_word block;
    lane::block_place place;
    std::uint8_t* mark = nullptr;     ///< of a small block
    unsigned class_index = no_class;  ///< of a small block

    [[nodiscard]] std::uint64_t bytes() const noexcept { return lane::bytes_of(block); }
    [[nodiscard]] bool is_small() const noexcept { return mark != nullptr; }
    /// The block was found in a heap with several nodes: claim_by_node() and the calls after it change its mark or
    /// shadow.
    [[nodiscard]] bool is_by_node() const noexcept { return mark == nullptr && class_index != no_class; }
};

/// A live small block: where it begins, and its class and bank.
struct slab_block {
    std::uint64_t start = 0;
    unsigned kind = 0;
};

/// What the user holds and what it costs, counted from the bitmaps and page entries.
struct block_statistics {
    std::uint64_t allocated_blocks = 0;  ///< small and big
    std::uint64_t allocated_bytes = 0;   ///< usable bytes of these blocks
    std::uint64_t small_blocks = 0;
    std::uint64_t small_bytes = 0;
    std::uint64_t big_blocks = 0;
    std::uint64_t big_bytes = 0;
    std::uint64_t slabs = 0;
    std::uint64_t quarantined_slabs = 0;
    std::uint64_t guard_ranges = 0;  ///< granules, neither allocated nor free
    std::uint64_t free_extents = 0;
    std::uint64_t free_pages = 0;  ///< with those in caches
    std::uint64_t largest_free_pages = 0;
};

/// How full a slab is, counted from its bitmap.
struct slab_occupancy {
    std::uint32_t block_size = 0;  ///< bytes; 0: quarantined, or no slab
    std::uint32_t blocks = 0;      ///< that fit into the slab
    std::uint32_t live_blocks = 0;
    std::uint32_t old_block_size = 0;  ///< of blocks older than the last morph; 0: there are none
    std::uint32_t old_live_blocks = 0;
};

/// The allocator of one open heap. format() or open() comes first, once. From then on it is thread-safe until close();
/// during and after close() no thread may be in a call. Several heaps and any number of threads may exist at once.
class block_allocator {
public:
    /// This object opens `extents`, which must outlive it, as must `guard`, which verifies bitmaps before they are
    /// used. Where the segments of `extents` belong to nodes of `machine`, so do arenas: a thread allocates from the
    /// arenas of the node that it runs on at its first allocation.
    block_allocator(segment::space_view space, extent::extent_allocator& extents,
                    segment::bitmap_guard* guard = nullptr,
                    const persist::topology& machine = persist::machine_topology::here()) noexcept
        : space_(space),
          extents_(extents),
          cached_extents_(extents),
          pool_(space, extents, guard, gate_),
          machine_(machine) {}
    block_allocator(const block_allocator&) = delete;
    block_allocator& operator=(const block_allocator&) = delete;
    ~block_allocator() { close(); }

    /// Makes the space of a new heap empty: calls extent_allocator::format() and makes the tables in DRAM.
    [[nodiscard]] base::result<void> format();
    /// Opens the extents of [0, frontier) and notes the slabs among them. Writes nothing to the heap. Fails as
    /// extent_allocator::open() does. A slab with a wrong header is no failure: nothing is allocated from it, a free of
    /// its blocks fails with corrupt, and check() names it. `crashed`: in durability `atomic`, as for
    /// extent_allocator::recover(). Otherwise extent_allocator::write_opened() must come before the first change.
    [[nodiscard]] base::result<void> open(base::pages frontier, bool crashed = false);
    /// From now on free extents are kept in caches (extent_cache.hpp), and empty slabs in their bins (empty_slabs.cpp).
    /// Comes before any thread allocates. Fails with out_of_memory.
    [[nodiscard]] base::result<void> keep_extents() {
        HF_TRY(cached_extents_.start(pool_.bins().arenas()));
        pool_.empties().keep(true);
        extents_.set_hoard(base::function_ref<void()>(hoard_));
        return {};
    }
    /// Frees the extents in caches, and empty slabs beyond one for each bin, so that the extent allocator knows this
    /// free space.
    void flush_extents() noexcept {
        pool_.remote().merge_all();
        pool_.empties().flush();
        cached_extents_.flush();
    }
    /// From now on the heap is hardened (decision 18): a thread takes a random one of the free blocks that it found,
    /// and release() puts blocks into quarantine. Callers must free with free_exactly(). Comes before any thread
    /// allocates.
    void harden() noexcept { hardened_ = true; }
    /// Guard ranges, as in slab_pool. No other thread may be in a call during free_guards() and renew_guards().
    [[nodiscard]] base::result<void> start_guards(segment::page_access& access, segment::page_access::rights left) {
        return pool_.source().start_guards(access, left);
    }
    void free_guards() noexcept { pool_.source().free_guards(); }
    void renew_guards(base::pages from, base::pages end) noexcept { pool_.source().renew_guards(from, end); }
    [[nodiscard]] guard_ranges& guards() noexcept { return pool_.source().guards(); }
    [[nodiscard]] bool is_hardened() const noexcept { return hardened_; }
    /// From now on no two blocks share a cache line: small blocks are of classes that are whole lines. Comes before the
    /// first allocation, at each open of a heap that was created so. The caches of the other classes stay empty, so the
    /// paths that find a list by size alone allocate nothing from them.
    void separate_cache_lines() noexcept { separates_lines_ = true; }
    /// Forgets all caches; does not touch the memory. Idempotent.
    void close() noexcept;

    /// A block of at least `bytes` (> 0) at a multiple of `alignment` (a power of two up to maximum_alignment). Null
    /// where there is none: last_failure() says why (invalid_argument; out_of_memory; no_space, limit or another
    /// failure to grow). The content is arbitrary.
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment) noexcept;
    /// Allocates as allocate() does, with a type number that is not 0; invalid_argument where it is not below
    /// segment::type_limit.
    [[nodiscard]] void* allocate_typed(std::size_t bytes, std::size_t alignment, std::uint32_t type) noexcept;

    /// Frees a block. Any other address changes nothing and is always an error: last_failure() names it (bad_address;
    /// corrupt where the slab is quarantined). Where the slab is unloaded and its bitmap gets no space on disk, nothing
    /// is changed and the failure is that of reserving the space, such as no_space: a later call may succeed. Where
    /// several threads free one block at once, it becomes free once, but more than one of them may get true.
    [[nodiscard]] bool try_free(void* block) noexcept;
    /// The shortest paths of allocation and free; a caller for whom they fail calls allocate() or try_free(). Not for
    /// heaps that are hardened, or of durability `atomic`.
    [[nodiscard]] const plain_blocks& plain() const noexcept { return plain_; }
    /// Frees as try_free() does, in a hardened heap: of several threads that free one block at once exactly one
    /// succeeds, and a small block goes to this thread's quarantine, whatever node it lies on.
    [[nodiscard]] bool free_exactly(void* block) noexcept;
    /// Frees as try_free() does, with the failure in the result.
    [[nodiscard]] base::result<void> free(void* block);

    // --- allocation and free in two steps: for durability `atomic`, where the caller makes the change durable between
    // them, and for blocks that are reserved ---

    /// Slabs are made and released through `log`. Threads find their lanes in `lanes`; where it is not null, the caller
    /// writes the bitmaps on media. Comes before the first allocation.
    void use_log(slab_log* log, lane::lane_pool* lanes) noexcept {
        pool_.set_log(log, lanes != nullptr);
        caches_.lanes = lanes;
    }
    void forget_log() noexcept {
        pool_.set_log(nullptr, caches_.lanes != nullptr);
        caches_.lanes = nullptr;
    }
    /// Durability `collect`: slab_pool::set_traced(). Comes before the first allocation.
    void set_traced(bool traced) noexcept { pool_.set_traced(traced); }
    /// For tests: slab_pool::morph() for the arena of this thread.
    bool morph(base::granule slab, unsigned class_index, unsigned covered_at_most) noexcept {
        return pool_.morpher().morph(slab, arena(), class_index, covered_at_most);
    }
    /// The words that the line of live bitmaps at this address must hold now.
    void bits_of_line(const std::uint64_t* line, std::span<std::uint64_t, 8> bits) const noexcept {
        pool_.table().bits_of_line(line, bits);
    }
    /// The mark of a small block whose slab is loaded; else null.
    [[nodiscard]] std::uint8_t* mark_of(std::uint64_t offset, lane::block_word block) const noexcept;
    /// Bytes of user space.
    [[nodiscard]] std::uint64_t end_offset() const noexcept { return base::to_bytes(extents_.frontier()); }
    /// This thread's cache: with it, its lane. Null while the thread ends.
    [[nodiscard]] thread_cache* this_cache() noexcept { return find_cache(); }
    /// Takes a block as allocate() does, but with the mark `held`: the caller must release() it or mark it allocated.
    /// `cache` is this_cache(), here and below. False: last_failure() says why.
    [[nodiscard]] bool hold(thread_cache* cache, std::size_t bytes, std::size_t alignment, held_block& held) noexcept;
    /// Takes a block as hold() does, with a type number.
    [[nodiscard]] bool hold_typed(std::size_t bytes, std::size_t alignment, std::uint32_t type,
                                  held_block& held) noexcept;
    /// Finds the allocated block that starts at the address. For any other address it is false, and last_failure() says
    /// why.
    [[nodiscard]] bool find_allocated(const void* block, held_block& found) noexcept;
    /// Marks a block that is `held` as allocated; a block of whole pages on media, too. Not in durability `atomic`.
    void keep(const held_block& held) noexcept;
    /// Makes an allocated block of whole pages, which find_allocated() found, long enough for `bytes` without moving
    /// it. False, and nothing is changed, where `bytes` fit a small block or there is no room. Not in durability
    /// `atomic`. Only the block's owner may call it.
    [[nodiscard]] bool resize_pages(const held_block& found, std::size_t bytes) noexcept;
    /// Takes back a block that is `held`, which means not marked as allocated.
    void release(thread_cache* cache, const held_block& held) noexcept;
    /// Whether the offset lies in an allocated block, small or big. For checks: may take long.
    [[nodiscard]] bool is_within_allocated(base::heap_offset offset) const noexcept;
    /// Steps to free a found block that is_by_node(): claim_by_node(), clear_by_node(), then release() or
    /// hold_by_node(), with the same cache of the thread throughout. This one claims the block: of all threads that
    /// try, one succeeds. No lock is taken.
    [[nodiscard]] bool claim_by_node(const held_block& found) noexcept;
    /// A claimed block becomes `held`: it is no longer live.
    void clear_by_node(const held_block& found) noexcept;
    /// Instead of release(): the block stays `held`, like one that hold() returned.
    void hold_by_node(held_block& found) noexcept;
    /// Leaves the failure for an address that is not the start of an allocated block, for last_failure().
    void leave_refusal(const void* block) noexcept;
    /// Leaves a failure for last_failure().
    static void leave(base::failure&& what) noexcept;
    /// In a child of fork: from here on threads find no cache, and blocks are freed by free_rarely() alone.
    void abandon() noexcept {
        thread_cache_registry::abandon_all(caches_);
        pool_.abandon();  // copies of plain() find no block
        renew_plain();
    }

    /// Pins the allocated block that starts at the address: until unpin() every free of it is refused as one of a bad
    /// address. `place`: made by pinned_blocks::make_place(); nothing happens where it is empty. Comes after open().
    /// Only the block's owner may call pin() and unpin().
    void pin(const void* block, pin_place place) noexcept {
        if (!place.empty()) {
            const std::uint64_t offset = space_.offset(block).value;
            pool_.pins().add(offset, std::move(place));
            pool_.table().replace_mark(offset, live_mark::live, live_mark::pinned);
        }
    }
    /// Ends the pin. The result is the place, for another pin(); empty where the block was not pinned.
    pin_place unpin(const void* block) noexcept;

    /// The usable bytes of the block; bad_address (or corrupt) where the address is not the start of an allocated
    /// block.
    [[nodiscard]] base::result<std::size_t> usable_size(const void* block) const;
    /// The block's type number, 0 for none. Fails as usable_size() does.
    [[nodiscard]] base::result<std::uint32_t> type_of(const void* block) const;

    /// Why this thread's last failed call of allocate() or try_free(), on any heap, failed.
    [[nodiscard]] static const base::failure& last_failure() noexcept;

    /// Calls `each` for all allocated blocks in order of address, with the offset, the usable size and the type number.
    /// `each` may free the block that it is given. Blocks that other calls allocate or free meanwhile may be missed or
    /// seen.
    using block_visitor = base::function_ref<void(base::heap_offset, std::uint64_t, std::uint32_t)>;
    void for_each_block(block_visitor each) const;

    /// The occupancy of the slab in this granule. Its bitmap must have been admitted (bitmap_guard).
    [[nodiscard]] slab_occupancy occupancy(base::granule of) const noexcept;
    [[nodiscard]] block_statistics statistics() const;
    /// True iff no block is allocated.
    [[nodiscard]] bool all_free() const;

    /// Gives back the blocks in this thread's cache. Never needed for correctness; other threads can then use their
    /// memory.
    void flush_this_thread() noexcept;
    /// While it exists, other threads change nothing on media: a call that would waits until it is gone. For commits.
    /// Must not be made within a call of the allocator.
    class [[nodiscard]] pause {
    public:
        explicit pause(block_allocator& of) noexcept : gate_(of.gate_) { gate_.close(); }
        pause(const pause&) = delete;
        pause& operator=(const pause&) = delete;
        ~pause() { gate_.open(); }

    private:
        commit_gate& gate_;
    };
    /// Gives back the parts of slabs from which no block is out, of all threads: so a thread that allocates nothing for
    /// long keeps nothing from the others. During a pause.
    void flush_idle_parts() noexcept { thread_cache_registry::give_back_idle(caches_); }
    /// Finds the node that this thread runs on now. Where it is another one than the thread's arena belongs to, gives
    /// the thread's blocks back, moves it to an arena of that node, and returns true. Threads do this themselves now
    /// and then.
    bool follow_this_thread() noexcept;
    /// The frees of other nodes' blocks.
    [[nodiscard]] const remote_frees& remote() const noexcept { return pool_.remote(); }
    /// Gives back what this thread's cache and the caches of extents keep, and makes slabs without a live block free
    /// extents. It looks at every slab, unloaded ones too.
    void release_unused() noexcept;

    /// Writes what the user holds to the live bitmaps on media, for a commit. During a pause. Does nothing where the
    /// caller writes them (use_log()).
    void write_bitmaps() noexcept {
        pool_.remote().merge_all();
        pool_.upkeep().write_bitmaps();
    }

    /// slab_pool::rest_idle(); comes before write_bitmaps(). rested() comes after that commit is durable. Other threads
    /// must stand still.
    [[nodiscard]] resting_pages rest_idle(bool all) {
        pool_.remote().merge_all();
        return pool_.rester().rest_idle(all);
    }
    void rested(const segment::free_runs& holes) noexcept { pool_.rester().rested(holes); }

    /// For a commit that writes headers or bitmaps of these granules. check_headers() fails with corrupt where the
    /// header of a slab breaks SLAB-1, SLAB-2, SLAB-3 or SLAB-11, or has another class than the slab; check_bitmaps()
    /// where a bitmap breaks SLAB-4. Damage that was there when the heap was opened is no failure: it stays as it is.
    /// During a pause.
    [[nodiscard]] base::result<void> check_headers(base::granule first, std::uint64_t count) const;
    [[nodiscard]] base::result<void> check_bitmaps(base::granule first, std::uint64_t count) const;
    /// Appends a sentence for every invariant of slabs and extents that does not hold. Other threads must stand still.
    /// `held`: offsets of the blocks that are held and in no thread's cache.
    void check(std::vector<std::string>& problems, std::span<const std::uint64_t> held = {});

private:
    friend class slab_checker;
    friend struct allocator_memory;  // of the tests that count what is written where

    [[nodiscard]] base::result<void> start();
    void open_caches() noexcept;
    void renew_plain() noexcept;
    [[nodiscard]] thread_cache* find_cache() noexcept { return thread_cache_registry::find_or_attach(caches_); }
    /// class_for() among the classes that blocks of this heap may have.
    [[nodiscard]] unsigned class_of(std::uint64_t bytes, std::uint64_t alignment) const noexcept {
        const unsigned found = class_for(bytes, alignment);
        return separates_lines_ ? in_whole_lines(found) : found;
    }
    [[nodiscard]] std::uint64_t take_one(unsigned class_index, std::uint32_t type) noexcept;
    [[nodiscard]] bool check_out(thread_cache& cache, unsigned class_index) noexcept;
    [[nodiscard]] bool is_worth_a_pass(const cached_blocks& blocks, unsigned class_index) const noexcept;
    [[nodiscard]] bool find_free(cached_blocks& blocks, unsigned class_index) const noexcept;
    [[nodiscard]] bool refill(thread_cache& cache, unsigned class_index) noexcept;
    [[nodiscard]] bool refill_in_order(thread_cache& cache, unsigned class_index) noexcept;
    void choose_at_random(thread_cache& cache, unsigned class_index) noexcept;
    void keep_back(thread_cache* cache, const held_block& held) noexcept;
    void keep_back_by_node(thread_cache* cache, held_block held) noexcept;
    void list_kept_back(std::vector<std::uint64_t>& offsets) const;
    [[nodiscard]] void* allocate_cached(unsigned class_index) noexcept;
    [[nodiscard]] void* allocate_rarely(unsigned class_index) noexcept;
    [[nodiscard]] void* allocate_pages(std::size_t bytes, std::size_t alignment, std::uint32_t type) noexcept;
    [[nodiscard]] unsigned arena() noexcept;
    [[nodiscard]] extent::extent take_pages(std::size_t bytes, std::size_t alignment, segment::extent_kind kind,
                                            std::uint32_t type) noexcept;
    [[nodiscard]] bool free_pages(base::pages start);
    [[nodiscard]] held_block small_block(std::uint64_t offset, unsigned kind, std::uint8_t* mark) const noexcept;
    [[nodiscard]] bool find_in_slab(std::uint64_t offset, unsigned kind, held_block& found) const noexcept;
    [[nodiscard]] bool find_old(const void* block, held_block& found) noexcept;
    [[nodiscard]] std::optional<slab_block> find_small(std::uint64_t offset) const noexcept;
    [[nodiscard]] bool hold_pages(std::size_t bytes, std::size_t alignment, std::uint32_t type,
                                  held_block& held) noexcept;
    [[nodiscard]] bool hold_rarely(thread_cache* cache, unsigned class_index, held_block& held) noexcept;
    void hold_at(const cached_blocks& blocks, std::uint32_t index, unsigned class_index,
                 held_block& held) const noexcept;
    [[nodiscard]] bool find_rarely(const void* block, held_block& found) noexcept;
    void release_pages(thread_cache* cache, const held_block& held) noexcept;
    [[nodiscard]] bool free_rarely(void* block) noexcept;
    [[nodiscard]] bool free_inside(void* block) noexcept;
    static void leave_interruption() noexcept;
    [[nodiscard]] block_at by_node(std::uint64_t offset, unsigned kind) noexcept;
    [[nodiscard]] block_at by_node(const held_block& held) noexcept;
    [[nodiscard]] bool free_by_node(void* block, base::granule slab, std::uint8_t state) noexcept;
    [[nodiscard]] bool find_by_node(const void* block, base::granule slab, std::uint8_t state,
                                    held_block& found) noexcept;
    void release_by_node(const held_block& held) noexcept;
    void before_refill(thread_cache& cache) noexcept;
    [[nodiscard]] static bool is_type(std::uint32_t type) noexcept;
    [[nodiscard]] bool hold_one(unsigned class_index, std::uint32_t type, held_block& held) noexcept;
    [[nodiscard]] base::result<lane::block_word> look_up(const void* block) const;
    void reclaim() noexcept;
    [[nodiscard]] base::failure refusal(const void* block) const;

    segment::space_view space_;
    extent::extent_allocator& extents_;
    extent::extent_caches cached_extents_;
    slab_pool pool_;
    const persist::topology& machine_;
    cache_group caches_;
    commit_gate gate_{caches_};
    plain_blocks plain_;
    bool hardened_ = false;
    bool separates_lines_ = false;
    /// Gives kept slabs and extents back to the extent allocator before the heap grows.
    struct hoard {
        block_allocator* of;
        void operator()() const noexcept {
            of->pool_.empties().give_up();
            of->cached_extents_.flush();
        }
    } hoard_{this};
};

}  // namespace holdfast::slab

#include "slab/block_paths.hpp"
