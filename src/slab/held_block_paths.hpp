// The paths of block_allocator that every durable call takes: included by slab.hpp alone.
#pragma once

#include "base/hot.hpp"
#include "slab/slab.hpp"

namespace holdfast::slab {

HF_HOT held_block block_allocator::small_block(std::uint64_t offset, unsigned class_index) const noexcept {
    const size_class& kind = size_classes[class_index];
    const std::uint32_t index = block_index(kind, offset % base::granule_size);
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    const base::granule slab = base::granule_of(base::heap_offset{offset});
    return {offset,
            {lane::block_kind::small, kind.block_size, 0},
            {pool_.table().live_address(slab) + index / 64, bit, bit},
            pool_.table().has_marks() ? pool_.table().marks(slab, class_index) + index : nullptr,
            class_index};
}

HF_HOT bool block_allocator::hold(thread_cache* cache, std::size_t bytes, std::size_t alignment,
                                  held_block& held) noexcept {
    const unsigned class_index = class_for(bytes, alignment);
    if (class_index == no_class) [[unlikely]] {
        return hold_pages(bytes, alignment, 0, held);
    }
    if (cache == nullptr || cache->classes[class_index].count == 0) [[unlikely]] {
        return hold_uncached(cache, class_index, held);
    }
    cached_blocks& blocks = cache->classes[class_index];
    held = small_block(blocks.offsets[--blocks.count], class_index);
    return true;
}

/// Whether the offset is the start of an allocated block of that loaded slab.
HF_HOT bool block_allocator::find_in_slab(std::uint64_t offset, unsigned class_index,
                                          held_block& found) const noexcept {
    const size_class& kind = size_classes[class_index];
    const std::uint64_t within = offset % base::granule_size;
    const std::uint32_t index = block_index(kind, within);
    if (index * std::uint64_t{kind.block_size} != within || index >= kind.block_count) [[unlikely]] {
        return false;
    }
    found = small_block(offset, class_index);
    return found.mark != nullptr
               ? std::atomic_ref(*found.mark).load(std::memory_order_acquire) == live_mark::live
               : (std::atomic_ref(*found.place.word).load(std::memory_order_acquire) & found.place.mask) != 0;
}

HF_HOT bool block_allocator::find_allocated(const void* block, held_block& found) noexcept {
    const base::heap_offset offset = space_.offset(block);
    const base::granule slab = base::granule_of(offset);
    if (slab.value < pool_.table().granules()) [[likely]] {
        const unsigned class_index = slab_state::class_if_loaded(pool_.table().state(slab));
        if (class_index < class_count) [[likely]] {
            if (find_in_slab(offset.value, class_index, found)) [[likely]] {
                return true;
            }
            leave_refusal(block);
            return false;
        }
    }
    return find_rarely(block, found);
}

HF_HOT void block_allocator::release(thread_cache* cache, const held_block& held) noexcept {
    if (cache != nullptr && held.class_index < class_count) [[likely]] {
        cached_blocks& blocks = cache->classes[held.class_index];
        if (blocks.count != blocks.capacity) [[likely]] {
            blocks.offsets[blocks.count++] = held.offset;
            return;
        }
    }
    release_rarely(cache, held);
}

}  // namespace holdfast::slab
