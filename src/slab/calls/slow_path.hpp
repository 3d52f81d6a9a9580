// The calls that lists and block states alone do not answer: a thread's list is empty, a slab is not loaded or was
// morphed, the heap has several nodes, or the block is one of whole pages.
//
// - Each of them is a slow call (commit_gate.hpp): it waits while a commit runs, and is refused in a signal handler
//   that interrupted another.
// - What fails leaves the failure, and changes nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "slab/calls/block_core.hpp"
#include "slab/calls/block_inspector.hpp"
#include "slab/calls/cache_filler.hpp"
#include "slab/calls/page_blocks.hpp"
#include "slab/nodes/node_blocks.hpp"

namespace holdfast::slab {

/// Thread-safe.
class slow_path {
public:
    slow_path(block_core& core, const block_inspector& look, cache_filler& filler, node_blocks& nodes,
              page_blocks& pages) noexcept
        : core_(core), look_(look), filler_(filler), nodes_(nodes), pages_(pages) {}

    /// The thread's cache has no block of the class, or there is none.
    [[nodiscard]] void* allocate(unsigned class_index) noexcept;
    [[nodiscard]] void* allocate_typed(unsigned class_index, std::uint32_t type) noexcept;
    [[nodiscard]] void* allocate_pages(std::size_t bytes, std::size_t alignment, std::uint32_t type) noexcept;
    [[nodiscard]] bool free(void* block) noexcept;

    [[nodiscard]] bool hold(thread_cache* cache, unsigned class_index, held_block& held) noexcept;
    [[nodiscard]] bool hold_typed(unsigned class_index, std::uint32_t type, held_block& held) noexcept;
    [[nodiscard]] bool hold_pages(std::size_t bytes, std::size_t alignment, std::uint32_t type,
                                  held_block& held) noexcept;
    /// It is no slow call.
    [[nodiscard]] bool find_old(const void* block, held_block& found) noexcept;
    [[nodiscard]] bool find(const void* block, held_block& found) noexcept;
    void keep_pages(const held_block& held) noexcept;
    void release(thread_cache* cache, const held_block& held) noexcept;

private:
    [[nodiscard]] bool free_inside(void* block) noexcept;
    [[nodiscard]] bool hold_one(unsigned class_index, std::uint32_t type, held_block& held) noexcept;
    [[nodiscard]] bool load(base::granule slab) noexcept;

    block_core& core_;
    const block_inspector& look_;
    cache_filler& filler_;
    node_blocks& nodes_;
    page_blocks& pages_;
};

}  // namespace holdfast::slab
