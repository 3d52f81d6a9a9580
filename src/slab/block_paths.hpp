// The paths of block_allocator that every call takes: included by slab.hpp alone.
#pragma once

#include "base/hot.hpp"
#include "slab/slab.hpp"

namespace holdfast::slab {

HF_HOT void* block_allocator::allocate_cached(unsigned class_index) noexcept {
    const cache_slot& slot = caches_.slot();
    if (slot.instance != caches_.instance) [[unlikely]] {
        return nullptr;
    }
    cached_blocks& blocks = slot.cache->classes[class_index];
    const std::uint16_t index = blocks.try_pop();
    return index == cached_blocks::none ? nullptr : blocks.hand_out(index);
}

HF_HOT void* block_allocator::allocate(std::size_t bytes, std::size_t alignment) noexcept {
    const unsigned class_index = class_of(bytes, alignment);
    if (class_index == no_class) [[unlikely]] {
        return allocate_pages(bytes, alignment, 0);
    }
    void* const block = allocate_cached(class_index);
    return block != nullptr ? block : allocate_rarely(class_index);
}

HF_HOT bool block_allocator::try_free(void* block) noexcept {
    if (plain_.free(block)) [[likely]] {
        return true;
    }
    return free_rarely(block);
}

// --- in two steps ---------------------------------------------------------------------------------------------------

HF_HOT held_block block_allocator::small_block(std::uint64_t offset, unsigned kind, std::uint8_t* mark) const noexcept {
    const unsigned class_index = slab_state::class_of_kind(kind);
    const size_class& size = size_classes[class_index];
    const std::uint32_t index = block_index(size, offset % base::granule_size);
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    const base::granule slab = base::granule_of(base::heap_offset{offset});
    return {offset,
            {lane::block_kind::small, size.block_size, pool_.table().type(slab), (kind & slab_state::upper_bank) != 0},
            {pool_.table().live_address(slab) + slab_state::first_word_of(kind) + index / 64, bit, bit},
            mark,
            class_index};
}

HF_HOT bool block_allocator::hold(thread_cache* cache, std::size_t bytes, std::size_t alignment,
                                  held_block& held) noexcept {
    const unsigned class_index = class_of(bytes, alignment);
    if (class_index == no_class) [[unlikely]] {
        return hold_pages(bytes, alignment, 0, held);
    }
    const std::uint16_t index = cache == nullptr ? cached_blocks::none : cache->classes[class_index].try_pop();
    if (index == cached_blocks::none) [[unlikely]] {
        return hold_rarely(cache, class_index, held);
    }
    hold_at(cache->classes[class_index], index, class_index, held);
    return true;
}

HF_HOT void block_allocator::hold_at(const cached_blocks& blocks, std::uint32_t index, unsigned class_index,
                                     held_block& held) const noexcept {
    std::atomic_ref(blocks.mark(index)).store(live_mark::held, std::memory_order_relaxed);
    held.offset = space_.offset(blocks.block(index)).value;
    held.block = {lane::block_kind::small, blocks.block_size, 0, blocks.upper};
    held.place.word = pool_.table().live_address(blocks.place().slab) +
                      (blocks.upper ? segment::upper_bitmap_word : 0) + index / marks_a_word;
    held.place.mask = held.place.set = std::uint64_t{1} << (index % marks_a_word);
    held.mark = &blocks.mark(index);
    held.class_index = class_index;
}

/// Finds the allocated block of a loaded slab that begins at the offset.
HF_HOT bool block_allocator::find_in_slab(std::uint64_t offset, unsigned kind, held_block& found) const noexcept {
    std::uint8_t* const mark = pool_.table().mark_at(offset, kind);
    if (mark == nullptr || std::atomic_ref(*mark).load(std::memory_order_acquire) != live_mark::live) [[unlikely]] {
        return false;
    }
    found = small_block(offset, kind, mark);
    return true;
}

HF_HOT bool block_allocator::find_allocated(const void* block, held_block& found) noexcept {
    const base::heap_offset offset = space_.offset(block);
    const base::granule slab = base::granule_of(offset);
    if (slab.value < pool_.table().plain_granules()) [[likely]] {
        const std::uint8_t state = pool_.table().state(slab);
        if (slab_state::is_loaded(state)) [[likely]] {
            if (find_in_slab(offset.value, slab_state::kind_of(state), found)) [[likely]] {
                return true;
            }
            return find_old(block, found);
        }
    }
    return find_rarely(block, found);
}

HF_HOT void block_allocator::release(thread_cache* cache, const held_block& held) noexcept {
    if (held.is_small()) [[likely]] {
        if (hardened_) [[unlikely]] {
            keep_back(cache, held);
            return;
        }
        std::atomic_ref(*held.mark).store(live_mark::free, std::memory_order_release);
        pool_.note_free(base::granule_of(base::heap_offset{held.offset}));
        return;
    }
    release_pages(cache, held);
}

}  // namespace holdfast::slab
