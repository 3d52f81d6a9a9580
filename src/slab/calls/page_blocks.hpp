// Blocks of whole pages are extents of the kind `used`. A held one, and a free extent in a cache, are `reserved` on
// media, so they are free after a crash.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/function_ref.hpp"
#include "base/units.hpp"
#include "extent/extent.hpp"
#include "slab/calls/block_core.hpp"
#include "slab/calls/block_inspector.hpp"
#include "slab/calls/small_blocks.hpp"

namespace holdfast::slab {

inline constexpr std::uint64_t maximum_alignment = extent::maximum_alignment * base::page_size;

/// Thread-safe. Functions are slow calls (gates.hpp), except for those that are called from within one.
class page_blocks {
public:
    page_blocks(block_core& core, small_blocks& small, const block_inspector& inspector) noexcept
        : core_(core), small_(small), inspector_(inspector) {}

    /// Null: last_failure() says why.
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment, std::uint32_t type) noexcept;
    /// False: last_failure() says why.
    [[nodiscard]] bool hold(std::size_t bytes, std::size_t alignment, std::uint32_t type, held_block& held) noexcept;
    /// Marks a `held` block allocated on media.
    void keep(const held_block& held) noexcept;
    /// Makes a block long enough without moving it. False, and nothing is changed, where `bytes` fit a small block or
    /// there is no room. Not in durability `atomic`. Only the block's owner may call it.
    [[nodiscard]] bool resize(const held_block& found, std::size_t bytes) noexcept;

    // --- a free in steps, in heaps of several nodes: of threads that free one block at once, one succeeds ---

    /// Whether this thread leaves the block's page entry to a merge (remote_extents.hpp). In one call it stays so.
    [[nodiscard]] bool is_elsewhere(base::pages start) noexcept;
    [[nodiscard]] bool claim(const held_block& found) noexcept;
    /// The block stays allocated, or its entry is reserved.
    void end_claim(const held_block& found) noexcept;
    /// False, and nothing is changed, where the caller makes the entry reserved, and ends the claim.
    [[nodiscard]] bool clear_elsewhere(const held_block& found) noexcept;
    /// As clear_elsewhere(), for a thread that is gone. The extent serves again after the next open.
    [[nodiscard]] bool clear_claimed(const held_block& found) noexcept;
    /// For a checkpoint: `replace`, which gets word, found and wanted, withdraws the entries of a line of page entries
    /// whose blocks are cleared.
    void withdraw_line(const std::uint64_t* line,
                       base::function_ref<void(std::uint64_t&, std::uint64_t, std::uint64_t)> replace) const noexcept;
    [[nodiscard]] bool has_nodes() const noexcept { return extent::remote_of(core_.extents).active(); }

    // --- called from within a slow call ---

    /// Frees the block of whole pages that starts there; where there is none, leaves the failure.
    [[nodiscard]] bool free(base::pages start);
    void release(const thread_cache* cache, const held_block& held) noexcept;

private:
    [[nodiscard]] extent::extent take(std::size_t bytes, std::size_t alignment, segment::extent_kind kind,
                                      std::uint32_t type) noexcept;
    [[nodiscard]] bool note_taken(const extent::extent& taken) noexcept;
    void merge_at_home() noexcept;
    [[nodiscard]] std::uint32_t node() noexcept;
    [[nodiscard]] bool free_elsewhere(base::pages start);
    void release_elsewhere(base::pages start, base::pages length) noexcept;

    block_core& core_;
    small_blocks& small_;
    const block_inspector& inspector_;
};

}  // namespace holdfast::slab
