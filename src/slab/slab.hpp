// The interface of the layer slab: blocks of memory, small and big, in one allocator.
//
// Blocks of up to 16 KiB come from slabs of 64 KiB, one size class each, through the caches of threads. Larger blocks,
// and alignments that no class has, are extents of whole pages. Small blocks with a type number have slabs of their
// own, and no cache. Neither an allocation nor a free of a small block uses a lock, a locked instruction, a system call
// or a division, and neither touches the block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/function_ref.hpp"
#include "base/process_identity.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/extent.hpp"
#include "segment/format/space.hpp"
#include "slab/calls/block_core.hpp"
#include "slab/calls/block_inspector.hpp"
#include "slab/calls/node_blocks.hpp"
#include "slab/calls/page_blocks.hpp"
#include "slab/calls/slow_path.hpp"
#include "slab/calls/small_blocks.hpp"

namespace holdfast::slab {

/// The allocator of one open heap. format() or open() comes first, once. It is then thread-safe until close(); during
/// and after close() no thread may be in a call.
class block_allocator {
public:
    /// `extents`, which is opened here, must outlive this object, as must `verifier`, which verifies bitmaps before
    /// they are used. Where the segments of `extents` belong to nodes of `machine`, so do arenas: a thread allocates
    /// from those of the node that it runs on at its first allocation.
    block_allocator(segment::space_view space, extent::extent_allocator& extents,
                    segment::bitmap_verifier* verifier = nullptr,
                    const persist::topology& machine = persist::machine_topology::here()) noexcept
        : core_(space, extents, verifier, machine) {}
    block_allocator(const block_allocator&) = delete;
    block_allocator& operator=(const block_allocator&) = delete;
    ~block_allocator() { close(); }

    [[nodiscard]] base::result<void> format();
    /// Notes the slabs in [0, frontier); writes nothing. Fails as extent_allocator::open() does. A slab with a wrong
    /// header is no failure: nothing is allocated from it, a free of its blocks fails with corrupt, and check() names
    /// it. `crashed` is for extent_allocator::recover(); where it is false, extent_allocator::write_opened() must come
    /// before the first change.
    [[nodiscard]] base::result<void> open(base::pages frontier, bool crashed = false);
    /// Keeps free extents in caches (extent_cache.hpp) and empty slabs in their bins (empty_slabs.hpp). Comes before
    /// any thread allocates. Fails with out_of_memory.
    [[nodiscard]] base::result<void> keep_extents();
    /// Frees the extents in caches, and empty slabs beyond one for each bin.
    void flush_extents() noexcept;
    /// Hardens the heap (decision 18): threads allocate in random order, and freed blocks wait in a quarantine. Callers
    /// must free with free_exactly(). Comes before any thread allocates.
    void harden() noexcept { core_.hardened = true; }
    [[nodiscard]] bool is_hardened() const noexcept { return core_.hardened; }
    /// Makes all small blocks whole cache lines, so that no two share a line. Comes before the first allocation, at
    /// each open of a heap that was created so. The caches of other classes stay empty, so paths that find a list by
    /// size alone allocate nothing from them.
    void separate_cache_lines() noexcept { core_.separates_lines = true; }
    /// Slabs are made and released through `log`, and threads find their lanes in `lanes`; where it is not null, the
    /// caller writes the bitmaps on media. Comes before the first allocation.
    void use_log(slab_log* log, lane::lane_pool* lanes) noexcept {
        core_.pool.set_log(log, lanes != nullptr);
        core_.caches.lanes = lanes;
    }
    void forget_log() noexcept {
        core_.pool.set_log(nullptr, core_.caches.lanes != nullptr);
        core_.caches.lanes = nullptr;
    }
    /// In a child of fork: threads find no cache, and only slow calls free blocks.
    void abandon() noexcept;
    /// Forgets all caches; does not touch the memory. Idempotent.
    void close() noexcept;

    [[nodiscard]] const block_inspector& inspect() const noexcept { return inspector_; }
    [[nodiscard]] small_blocks& small() noexcept { return small_; }
    [[nodiscard]] node_blocks& nodes() noexcept { return nodes_; }
    [[nodiscard]] page_blocks& whole_pages() noexcept { return pages_; }
    [[nodiscard]] slab_pool& slabs() noexcept { return core_.pool; }

    /// A block of at least `bytes` (> 0) at a multiple of `alignment` (a power of two up to maximum_alignment), with
    /// arbitrary content. Null: last_failure() says why (invalid_argument; out_of_memory; no_space, limit or another
    /// failure to grow).
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment) noexcept;
    /// `type` is not 0; invalid_argument where it is not below segment::type_limit.
    [[nodiscard]] void* allocate_typed(std::size_t bytes, std::size_t alignment, std::uint32_t type) noexcept;

    /// Frees a block. False, and nothing is changed, for any other address: last_failure() says why (bad_address;
    /// corrupt where the slab is quarantined). Where the bitmap of an unloaded slab gets no space on disk, the failure
    /// is that of reserving it, and a later call may succeed. Where several threads free one block at once, it becomes
    /// free once, but more than one of them may get true.
    [[nodiscard]] bool try_free(void* block) noexcept;
    /// Where these paths fail, callers use allocate() or try_free(). Not for hardened heaps or durability `atomic`.
    [[nodiscard]] const slab::fast_path& fast_path() const noexcept { return core_.fast_path; }
    /// For a hardened heap: of several threads that free one block at once exactly one succeeds, and a small block goes
    /// to this thread's quarantine. Fails as try_free() does.
    [[nodiscard]] bool free_exactly(void* block) noexcept;
    [[nodiscard]] base::result<void> free(void* block);

    // --- in two steps: the caller makes the change durable between them ---

    /// For tests.
    bool morph(base::granule slab, unsigned class_index, unsigned overlapped_at_most) noexcept {
        return core_.pool.morpher().morph(slab, core_.arena(), class_index, overlapped_at_most);
    }
    [[nodiscard]] std::uint64_t end_offset() const noexcept { return base::to_bytes(core_.extents.frontier()); }
    /// Null while the thread ends.
    [[nodiscard]] thread_cache* this_cache() noexcept { return core_.find_cache(); }
    /// Allocates a block with the state `held`, which the caller must release() or mark allocated. `cache` is
    /// this_cache(), here and below. False: last_failure() says why.
    [[nodiscard]] bool hold(thread_cache* cache, std::size_t bytes, std::size_t alignment, held_block& held) noexcept;
    [[nodiscard]] bool hold_typed(std::size_t bytes, std::size_t alignment, std::uint32_t type,
                                  held_block& held) noexcept;
    /// Finds the allocated block that starts at the address. False: last_failure() says why.
    [[nodiscard]] bool find_allocated(const void* block, held_block& found) noexcept;
    /// Marks a `held` block allocated; one of whole pages on media, too. Not in durability `atomic`.
    void keep(const held_block& held) noexcept;
    /// Takes back a `held` block. One that is_by_node() must be claimed and cleared.
    void release(thread_cache* cache, const held_block& held) noexcept;

    /// Until unpin(), every free of the allocated block that starts at the address is refused. `place` is of
    /// pinned_blocks::make_place(); nothing happens where it is empty. Comes after open(). Only the block's owner may
    /// call pin() and unpin().
    void pin(const void* block, pin_place place) noexcept;
    /// Returns the place of the pin; empty where the block was not pinned.
    pin_place unpin(const void* block) noexcept;

    /// Why this thread's last failed call of allocate() or try_free(), on any heap, failed.
    [[nodiscard]] static const base::failure& last_failure() noexcept;
    static void leave(base::failure&& what) noexcept;

    /// While it exists, other threads change nothing on media: calls that would wait until it is gone. Must not be made
    /// within a call of the allocator.
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
    friend struct allocator_memory;  // for tests
    friend change_gate& changes_of(block_allocator& of) noexcept;
    friend void continue_in_child(block_allocator& of) noexcept;
    friend block_undo& undo_of(block_allocator& of) noexcept;

    [[nodiscard]] base::result<void> start();
    void open_caches() noexcept;

    block_core core_;
    block_inspector inspector_{core_};
    small_blocks small_{core_};
    node_blocks nodes_{core_, inspector_};
    page_blocks pages_{core_, small_, inspector_};
    slow_path slow_path_{core_, inspector_, nodes_, pages_};
    struct reclaim_callback {
        block_core* of;
        void operator()() const noexcept {
            of->pool.empties().give_up();
            of->cached_extents.flush();
        }
    } reclaim_callback_{&core_};
};

[[nodiscard]] inline change_gate& changes_of(block_allocator& of) noexcept { return of.core_.changes; }
/// In a child of fork, which has a copy of the heap.
inline void continue_in_child(block_allocator& of) noexcept { of.core_.caches.owner = base::process_identity(); }
[[nodiscard]] inline block_undo& undo_of(block_allocator& of) noexcept { return of.core_.undo; }

}  // namespace holdfast::slab

#include "slab/slab_inline.hpp"
