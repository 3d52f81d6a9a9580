// What the parts of a block allocator share: a member by value, at a constant distance.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/hot.hpp"
#include "base/units.hpp"
#include "extent/extent.hpp"
#include "extent/extent_cache.hpp"
#include "lane/effects.hpp"
#include "segment/format/space.hpp"
#include "slab/calls/block_undo.hpp"
#include "slab/calls/fast_path.hpp"
#include "slab/calls/gates.hpp"
#include "slab/calls/hardened.hpp"
#include "slab/calls/thread_cache.hpp"
#include "slab/classes/size_classes.hpp"
#include "slab/supply/slab_pool.hpp"

namespace holdfast::slab {

/// A block that is taken and not allocated yet, or about to be freed. In durability `atomic` the caller changes its
/// state and bits.
struct held_block {
    std::uint64_t offset = 0;
    lane::block_word block;
    lane::block_place place;
    std::uint8_t* state = nullptr;  ///< null: not small
    unsigned class_index = no_class;

    [[nodiscard]] std::uint64_t bytes() const noexcept { return lane::bytes_of(block); }
    [[nodiscard]] bool is_small() const noexcept { return state != nullptr; }
    /// It is freed through node_blocks.
    [[nodiscard]] bool is_by_node() const noexcept { return state == nullptr && class_index != no_class; }
};

/// Constant after open, except for parts that are thread-safe.
struct block_core {
    block_core(segment::space_view of_heap, extent::extent_allocator& extents_of_heap,
               segment::bitmap_verifier* verifier, const persist::topology& of_machine) noexcept
        : space(of_heap),
          extents(extents_of_heap),
          cached_extents(extents_of_heap),
          pool(of_heap, extents_of_heap, verifier, gate),
          machine(of_machine) {}

    segment::space_view space;
    extent::extent_allocator& extents;
    extent::extent_caches cached_extents;
    cache_group caches;
    commit_gate gate{caches};
    change_gate changes{caches};
    slab_pool pool;
    const persist::topology& machine;
    block_undo undo{pool, extents, caches};
    slab::fast_path fast_path;
    bool hardened = false;
    bool separates_lines = false;

    [[nodiscard]] thread_cache* find_cache() noexcept { return thread_cache_registry::find_or_attach(caches); }
    [[nodiscard]] unsigned arena() noexcept {
        const thread_cache* const cache = find_cache();
        return cache == nullptr ? 0 : cache->arena;
    }
    [[nodiscard]] unsigned class_of(std::uint64_t bytes, std::uint64_t alignment) const noexcept {
        const unsigned found = class_for(bytes, alignment);
        return separates_lines ? in_whole_lines(found) : found;
    }
    void renew_fast_path() noexcept;
    [[nodiscard]] held_block small_block(std::uint64_t offset, slab_kind kind, std::uint8_t* state) const noexcept;
    void hold_at(const cached_blocks& blocks, std::uint32_t index, unsigned class_index,
                 held_block& held) const noexcept;
    [[nodiscard]] bool find_in_slab(std::uint64_t offset, slab_kind kind, held_block& found) const noexcept;
};

HF_HOT held_block block_core::small_block(std::uint64_t offset, slab_kind kind, std::uint8_t* state) const noexcept {
    const unsigned class_index = kind.class_index();
    const size_class& size = size_classes[class_index];
    const std::uint32_t index = block_index(size, offset % base::granule_size);
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    const base::granule slab = base::granule_of(base::heap_offset{offset});
    return {offset,
            {lane::block_kind::small, size.block_size, pool.table().type(slab), kind.is_upper()},
            {pool.table().live_address(slab) + kind.first_word() + index / 64, bit, bit},
            state,
            class_index};
}

HF_HOT void block_core::hold_at(const cached_blocks& blocks, std::uint32_t index, unsigned class_index,
                                held_block& held) const noexcept {
    std::atomic_ref(blocks.state(index)).store(block_state::held, std::memory_order_relaxed);
    held.offset = space.offset(blocks.block(index)).value;
    held.block = {lane::block_kind::small, blocks.block_size, 0, blocks.upper};
    held.place.word = pool.table().live_address(blocks.place().slab) + (blocks.upper ? segment::upper_bitmap_word : 0) +
                      index / states_a_word;
    held.place.mask = held.place.set = std::uint64_t{1} << (index % states_a_word);
    held.state = &blocks.state(index);
    held.class_index = class_index;
}

HF_HOT bool block_core::find_in_slab(std::uint64_t offset, slab_kind kind, held_block& found) const noexcept {
    std::uint8_t* const state = pool.table().block_state_at(offset, kind);
    if (state == nullptr || std::atomic_ref(*state).load(std::memory_order_acquire) != block_state::live) [[unlikely]] {
        return false;
    }
    found = small_block(offset, kind, state);
    return true;
}

}  // namespace holdfast::slab
