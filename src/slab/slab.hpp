// The interface of the layer slab: blocks of memory, small and big, in one allocator.
//
// Blocks of up to 16 KiB come from slabs of 64 KiB, one size class each, through a cache that each thread has for each
// heap. Larger blocks, and alignments that no class has, are extents of whole pages. Small blocks with a type number
// have slabs of their own, and no cache. The states of its blocks, in DRAM, say what the user holds of a slab in use;
// the live bitmaps on media say it after a commit or a checkpoint. Page entries on media are always right.
//
// A small allocation looks up the class, finds the thread's cache, takes the next index from a list and stores the
// block's state. A free finds the block states of the slab from the address, the block's state by a multiplication,
// checks that a live block begins there, and stores the state. Neither uses a lock, a locked instruction, a system call
// or a division, and neither touches the block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/failure.hpp"
#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/extent.hpp"
#include "segment/space.hpp"
#include "slab/calls/block_core.hpp"
#include "slab/calls/block_inspector.hpp"
#include "slab/calls/cache_filler.hpp"
#include "slab/calls/page_blocks.hpp"
#include "slab/calls/slow_path.hpp"
#include "slab/nodes/node_blocks.hpp"

namespace holdfast::slab {

/// The allocator of one open heap. format() or open() comes first, once. From then on it is thread-safe until close();
/// during and after close() no thread may be in a call. Several heaps and any number of threads may exist at once.
///
/// Its parts, from the bottom up: block_core (what all know), block_inspector (finds and checks what is allocated),
/// cache_filler (caches of threads), node_blocks (heaps with several nodes), page_blocks (whole pages), slow_path (the
/// calls that lists and block states alone do not answer). What is here is the life of the allocator and the paths of
/// nearly every call (slab_inline.hpp).
class block_allocator {
public:
    /// This object opens `extents`, which must outlive it, as must `verifier`, which verifies bitmaps before they are
    /// used. Where the segments of `extents` belong to nodes of `machine`, so do arenas: a thread allocates from the
    /// arenas of the node that it runs on at its first allocation.
    block_allocator(segment::space_view space, extent::extent_allocator& extents,
                    segment::bitmap_verifier* verifier = nullptr,
                    const persist::topology& machine = persist::machine_topology::here()) noexcept
        : core_(space, extents, verifier, machine) {}
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
    /// From now on free extents are kept in caches (extent_cache.hpp), and empty slabs in their bins (empty_slabs.hpp).
    /// Comes before any thread allocates. Fails with out_of_memory.
    [[nodiscard]] base::result<void> keep_extents();
    /// Frees the extents in caches, and empty slabs beyond one for each bin, so that the extent allocator knows this
    /// free space.
    void flush_extents() noexcept;
    /// From now on the heap is hardened (decision 18): a thread takes a random one of the free blocks that it found,
    /// and release() puts blocks into quarantine. Callers must free with free_exactly(). Comes before any thread
    /// allocates.
    void harden() noexcept { core_.hardened = true; }
    [[nodiscard]] bool is_hardened() const noexcept { return core_.hardened; }
    /// From now on no two blocks share a cache line: small blocks are of classes that are whole lines. Comes before the
    /// first allocation, at each open of a heap that was created so. The caches of the other classes stay empty, so the
    /// paths that find a list by size alone allocate nothing from them.
    void separate_cache_lines() noexcept { core_.separates_lines = true; }
    /// Slabs are made and released through `log`. Threads find their lanes in `lanes`; where it is not null, the caller
    /// writes the bitmaps on media. Comes before the first allocation.
    void use_log(slab_log* log, lane::lane_pool* lanes) noexcept {
        core_.pool.set_log(log, lanes != nullptr);
        core_.caches.lanes = lanes;
    }
    void forget_log() noexcept {
        core_.pool.set_log(nullptr, core_.caches.lanes != nullptr);
        core_.caches.lanes = nullptr;
    }
    /// In a child of fork: from here on threads find no cache, and blocks are freed by slow calls alone.
    void abandon() noexcept;
    /// Forgets all caches; does not touch the memory. Idempotent.
    void close() noexcept;

    // --- the parts --------------------------------------------------------------------------------------------------

    [[nodiscard]] const block_inspector& inspect() const noexcept { return look_; }
    [[nodiscard]] cache_filler& threads() noexcept { return filler_; }
    [[nodiscard]] node_blocks& nodes() noexcept { return nodes_; }
    [[nodiscard]] page_blocks& whole_pages() noexcept { return pages_; }
    [[nodiscard]] slab_pool& slabs() noexcept { return core_.pool; }

    // --- allocation and free ----------------------------------------------------------------------------------------

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
    [[nodiscard]] const slab::fast_path& fast_path() const noexcept { return core_.fast_path; }
    /// Frees as try_free() does, in a hardened heap: of several threads that free one block at once exactly one
    /// succeeds, and a small block goes to this thread's quarantine, whatever node it lies on.
    [[nodiscard]] bool free_exactly(void* block) noexcept;
    /// Frees as try_free() does, with the failure in the result.
    [[nodiscard]] base::result<void> free(void* block);

    // --- allocation and free in two steps: for durability `atomic`, where the caller makes the change durable between
    // them, and for blocks that are reserved ---

    /// For tests: slab_morpher::morph() for the arena of this thread.
    bool morph(base::granule slab, unsigned class_index, unsigned overlapped_at_most) noexcept {
        return core_.pool.morpher().morph(slab, core_.arena(), class_index, overlapped_at_most);
    }
    /// Bytes of user space.
    [[nodiscard]] std::uint64_t end_offset() const noexcept { return base::to_bytes(core_.extents.frontier()); }
    /// This thread's cache: with it, its lane. Null while the thread ends.
    [[nodiscard]] thread_cache* this_cache() noexcept { return core_.find_cache(); }
    /// Takes a block as allocate() does, but with the state `held`: the caller must release() it or mark it allocated.
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
    /// Takes back a block that is `held`, which means not marked as allocated. One that is_by_node() was claimed and
    /// cleared before (node_blocks).
    void release(thread_cache* cache, const held_block& held) noexcept;

    /// Pins the allocated block that starts at the address: until unpin() every free of it is refused as one of a bad
    /// address. `place`: made by pinned_blocks::make_place(); nothing happens where it is empty. Comes after open().
    /// Only the block's owner may call pin() and unpin().
    void pin(const void* block, pin_place place) noexcept;
    /// Ends the pin. The result is the place, for another pin(); empty where the block was not pinned.
    pin_place unpin(const void* block) noexcept;

    /// Why this thread's last failed call of allocate() or try_free(), on any heap, failed.
    [[nodiscard]] static const base::failure& last_failure() noexcept;
    /// Leaves a failure for last_failure().
    static void leave(base::failure&& what) noexcept;

    /// While it exists, other threads change nothing on media: a call that would waits until it is gone. For commits.
    /// Must not be made within a call of the allocator.
    class [[nodiscard]] pause {
    public:
        explicit pause(block_allocator& of) noexcept : gate_(of.core_.gate) { gate_.close(); }
        pause(const pause&) = delete;
        pause& operator=(const pause&) = delete;
        ~pause() { gate_.open(); }

    private:
        commit_gate& gate_;
    };

private:
    friend struct allocator_memory;  // of the tests that count what is written where

    [[nodiscard]] base::result<void> start();
    void open_caches() noexcept;

    block_core core_;
    block_inspector look_{core_};
    cache_filler filler_{core_};
    node_blocks nodes_{core_, look_};
    page_blocks pages_{core_, filler_, look_};
    slow_path slow_path_{core_, look_, filler_, nodes_, pages_};
    /// Gives kept slabs and extents back to the extent allocator before the heap grows.
    struct reclaim_callback {
        block_core* of;
        void operator()() const noexcept {
            of->pool.empties().give_up();
            of->cached_extents.flush();
        }
    } reclaim_callback_{&core_};
};

}  // namespace holdfast::slab

#include "slab/slab_inline.hpp"
