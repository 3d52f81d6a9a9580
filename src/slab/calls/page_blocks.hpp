// Blocks of whole pages are extents of the kind `used`. A held one, and a free extent in a cache, are `reserved` on
// media, so they are free after a crash.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "extent/extent.hpp"
#include "slab/calls/block_core.hpp"
#include "slab/calls/block_inspector.hpp"
#include "slab/calls/cache_filler.hpp"

namespace holdfast::slab {

inline constexpr std::uint64_t maximum_alignment = extent::maximum_alignment * base::page_size;

/// Thread-safe. Called from within a slow call, except for resize().
class page_blocks {
public:
    page_blocks(block_core& core, cache_filler& filler, const block_inspector& look) noexcept
        : core_(core), filler_(filler), look_(look) {}

    /// On failure, the extent begins at page 0, which holds the roots.
    [[nodiscard]] extent::extent take(std::size_t bytes, std::size_t alignment, segment::extent_kind kind,
                                      std::uint32_t type) noexcept;
    /// False, with a failure left, where no such block starts there.
    [[nodiscard]] bool free(base::pages start);
    void release(const thread_cache* cache, const held_block& held) noexcept;
    /// Makes a block long enough without moving it. False, and nothing is changed, where `bytes` fit a small block or
    /// there is no room. Not in durability `atomic`. Only the block's owner may call it.
    [[nodiscard]] bool resize(const held_block& found, std::size_t bytes) noexcept;

private:
    block_core& core_;
    cache_filler& filler_;
    const block_inspector& look_;
};

}  // namespace holdfast::slab
