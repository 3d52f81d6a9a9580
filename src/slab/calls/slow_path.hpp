// What is known by its address and not answered by block states alone: the block's slab is not loaded or was morphed,
// the heap has several nodes, or the block is one of whole pages.
//
// - Each of these calls, except for find_old(), is a slow call (gates.hpp): it waits while a commit runs, and
//   free() is refused in a signal handler that interrupted another.
// - What fails leaves the failure, and changes nothing.
#pragma once

#include <cstdint>

#include "slab/calls/block_core.hpp"
#include "slab/calls/block_inspector.hpp"
#include "slab/calls/node_blocks.hpp"
#include "slab/calls/page_blocks.hpp"

namespace holdfast::slab {

/// Thread-safe.
class slow_path {
public:
    slow_path(block_core& core, const block_inspector& inspector, node_blocks& nodes, page_blocks& pages) noexcept
        : core_(core), inspector_(inspector), nodes_(nodes), pages_(pages) {}

    [[nodiscard]] bool free(void* block) noexcept;
    [[nodiscard]] bool find_old(const void* block, held_block& found) noexcept;
    [[nodiscard]] bool find(const void* block, held_block& found) noexcept;
    void release(thread_cache* cache, const held_block& held) noexcept;

private:
    [[nodiscard]] bool free_inside(void* block) noexcept;
    [[nodiscard]] bool load(base::granule slab) noexcept;

    block_core& core_;
    const block_inspector& inspector_;
    node_blocks& nodes_;
    page_blocks& pages_;
};

}  // namespace holdfast::slab
