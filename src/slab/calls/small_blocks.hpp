// Small blocks: taken from the caches of threads, which are refilled from slabs and given back to them.
//
// - An allocation that finds the thread's list empty, and one of a block with a type, is a slow call (gates.hpp).
// - The blocks in a list are free by their states and lie in parts that the thread has checked out (SLAB-9).
// - Where space has run out, this thread's cache, empty slabs and cached extents are given back once, and then any slab
//   of any arena will do.
// - What fails leaves the failure, and changes nothing.
#pragma once

#include <cstdint>

#include "slab/calls/block_core.hpp"

namespace holdfast::slab {

/// Thread-safe. Functions are about the calling thread's cache, unless they say otherwise.
class small_blocks {
public:
    explicit small_blocks(block_core& core) noexcept : core_(core) {}

    /// The thread's cache has no block of the class, or there is no cache. Null: last_failure() says why.
    [[nodiscard]] void* allocate(unsigned class_index) noexcept;
    [[nodiscard]] void* allocate_typed(unsigned class_index, std::uint32_t type) noexcept;
    /// As the two above, but the block is `held`. False: last_failure() says why.
    [[nodiscard]] bool hold(thread_cache* cache, unsigned class_index, held_block& held) noexcept;
    [[nodiscard]] bool hold_typed(unsigned class_index, std::uint32_t type, held_block& held) noexcept;

    void flush_this_thread() noexcept;
    /// A thread that allocates nothing for long then keeps nothing from the others, except parts from which a block is
    /// out. Needs a pause.
    void flush_idle_parts() noexcept { thread_cache_registry::return_idle(core_.caches); }
    /// Where the thread runs on another node than its arena's, it gives its blocks back, gets an arena of that node,
    /// and the result is true. Threads do this themselves now and then.
    bool follow_this_thread() noexcept;
    /// Gives back what this thread's cache and the caches of extents keep, and looks at every slab.
    void release_unused() noexcept;
    void reclaim() noexcept;

private:
    [[nodiscard]] void* allocate_one(unsigned class_index, std::uint32_t type) noexcept;
    [[nodiscard]] bool hold_one(unsigned class_index, std::uint32_t type, held_block& held) noexcept;
    [[nodiscard]] std::uint64_t take_one(unsigned class_index, std::uint32_t type) noexcept;
    [[nodiscard]] bool refill(thread_cache& cache, unsigned class_index) noexcept;
    [[nodiscard]] bool admit() noexcept;
    [[nodiscard]] bool check_out(thread_cache& cache, unsigned class_index, std::uint32_t most) noexcept;
    [[nodiscard]] bool is_worth_a_pass(const cached_blocks& blocks, unsigned class_index) const noexcept;
    [[nodiscard]] bool find_free(cached_blocks& blocks, unsigned class_index, std::uint32_t most) const noexcept;
    /// `is_first`: the thread has not used the class yet.
    [[nodiscard]] std::uint32_t age(thread_cache& cache, bool is_first) noexcept;
    [[nodiscard]] bool refill_in_order(thread_cache& cache, unsigned class_index) noexcept;
    void before_refill(thread_cache& cache) noexcept;

    block_core& core_;
};

}  // namespace holdfast::slab
