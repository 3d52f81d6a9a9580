// How small blocks are found and freed in heaps with several nodes: by their states and shadows (remote_frees.hpp).
// Nothing here is called in heaps with one node.
//
// - A thread that frees a block of another node writes only memory of its own node.
// - Of all threads that claim a block, one succeeds.
#pragma once

#include <cstdint>

#include "base/units.hpp"
#include "slab/calls/block_core.hpp"
#include "slab/calls/block_inspector.hpp"

namespace holdfast::slab {

/// Thread-safe. All calls for one block are made with the same cache of the thread.
class node_blocks {
public:
    node_blocks(block_core& core, const block_inspector& look) noexcept : core_(core), look_(look) {}

    /// Frees as fast_path::free() does, in a loaded slab in that state; or leaves the failure.
    [[nodiscard]] bool free(void* block, base::granule slab, std::uint8_t state) noexcept;
    /// Finds the allocated block of such a slab, or leaves the failure.
    [[nodiscard]] bool find(const void* block, base::granule slab, std::uint8_t state, held_block& found) noexcept;
    /// Steps to free a found block that is_by_node(): claim(), clear(), then release() or hold(). This one claims the
    /// block: of all threads that try, one succeeds. No lock is taken.
    [[nodiscard]] bool claim(const held_block& found) noexcept;
    /// Takes a claim back.
    void unclaim(const held_block& found) noexcept;
    /// A claimed block becomes `held`: it is no longer live.
    void clear(const held_block& found) noexcept;
    /// A cleared block becomes free.
    void release(const held_block& held) noexcept;
    /// Instead of release(): the block stays `held`, like one that was never allocated.
    void hold(held_block& found) noexcept;

private:
    [[nodiscard]] block_at of(std::uint64_t offset, slab_kind kind) noexcept;
    [[nodiscard]] block_at of(const held_block& held) noexcept;

    block_core& core_;
    const block_inspector& look_;
};

}  // namespace holdfast::slab
