// Finds and frees small blocks in heaps with several nodes.
#pragma once

#include <cstdint>

#include "base/units.hpp"
#include "slab/calls/block_core.hpp"
#include "slab/calls/block_inspector.hpp"

namespace holdfast::slab {

/// Thread-safe. All calls for one block are made with the same cache of the thread.
class node_blocks {
public:
    node_blocks(block_core& core, const block_inspector& inspector) noexcept : core_(core), inspector_(inspector) {}

    /// The slab is loaded and in that state.
    [[nodiscard]] bool free(void* block, base::granule slab, std::uint8_t state) noexcept;
    [[nodiscard]] bool find(const void* block, base::granule slab, std::uint8_t state, held_block& found) noexcept;
    /// To free a block that is_by_node(): claim(), clear(), then release() or hold(). Of all threads that claim, one
    /// succeeds. No lock is taken.
    [[nodiscard]] bool claim(const held_block& found) noexcept;
    void unclaim(const held_block& found) noexcept;
    void clear(const held_block& found) noexcept;
    void release(const held_block& held) noexcept;
    /// The block stays `held`, like one that was never allocated.
    void hold(held_block& found) noexcept;

private:
    [[nodiscard]] block_at of(std::uint64_t offset, slab_kind kind) noexcept;
    [[nodiscard]] block_at of(const held_block& held) noexcept;

    block_core& core_;
    const block_inspector& inspector_;
};

}  // namespace holdfast::slab
