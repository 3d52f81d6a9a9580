// Included by slab.hpp alone: the paths of block_allocator that every call takes.
#pragma once

#include "base/hot.hpp"
#include "slab/slab.hpp"

namespace holdfast::slab {

HF_HOT void* block_allocator::allocate(std::size_t bytes, std::size_t alignment) noexcept {
    const unsigned class_index = core_.class_of(bytes, alignment);
    if (class_index == no_class) [[unlikely]] {
        return pages_.allocate(bytes, alignment, 0);
    }
    const cache_slot& slot = core_.caches.slot();
    if (slot.instance == core_.caches.instance) [[likely]] {
        cached_blocks& blocks = slot.cache->classes[class_index];
        const std::uint16_t index = blocks.try_pop();
        if (index != cached_blocks::none) [[likely]] {
            return blocks.hand_out(index);
        }
    }
    return small_.allocate(class_index);
}

HF_HOT bool block_allocator::try_free(void* block) noexcept {
    if (core_.fast_path.free(block)) [[likely]] {
        return true;
    }
    return slow_path_.free(block);
}

HF_HOT bool block_allocator::hold(thread_cache* cache, std::size_t bytes, std::size_t alignment,
                                  held_block& held) noexcept {
    const unsigned class_index = core_.class_of(bytes, alignment);
    if (class_index == no_class) [[unlikely]] {
        return pages_.hold(bytes, alignment, 0, held);
    }
    const std::uint16_t index = cache == nullptr ? cached_blocks::none : cache->classes[class_index].try_pop();
    if (index == cached_blocks::none) [[unlikely]] {
        return small_.hold(cache, class_index, held);
    }
    core_.hold_at(cache->classes[class_index], index, class_index, held);
    return true;
}

HF_HOT bool block_allocator::find_allocated(const void* block, held_block& found) noexcept {
    const base::heap_offset offset = core_.space.offset(block);
    const base::granule slab = base::granule_of(offset);
    if (slab.value < core_.pool.table().fast_granules()) [[likely]] {
        const std::uint8_t state = core_.pool.table().state(slab);
        if (slab_state::is_loaded(state)) [[likely]] {
            if (core_.find_in_slab(offset.value, slab_state::kind_of(state), found)) [[likely]] {
                return true;
            }
            return slow_path_.find_old(block, found);
        }
    }
    return slow_path_.find(block, found);
}

HF_HOT void block_allocator::release(thread_cache* cache, const held_block& held) noexcept {
    if (held.is_small()) [[likely]] {
        if (core_.hardened) [[unlikely]] {
            keep_back(core_.pool, cache, held);
            return;
        }
        std::atomic_ref(*held.state).store(block_state::free, std::memory_order_release);
        core_.pool.note_free(base::granule_of(base::heap_offset{held.offset}));
        return;
    }
    slow_path_.release(cache, held);
}

}  // namespace holdfast::slab
