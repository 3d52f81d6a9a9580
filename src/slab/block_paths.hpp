// The paths of block_allocator that every call takes: included by slab.hpp alone.
#pragma once

#include "base/hot.hpp"
#include "slab/slab.hpp"

namespace holdfast::slab {

HF_HOT void* block_allocator::allocate(std::size_t bytes, std::size_t alignment) noexcept {
    const unsigned class_index = class_for(bytes, alignment);
    if (class_index == no_class) [[unlikely]] {
        return allocate_pages(bytes, alignment, 0);
    }
    thread_cache* const cache = find_cache();
    if (cache == nullptr || cache->words[class_index].free_bits == 0) [[unlikely]] {
        return allocate_rarely(cache, class_index);
    }
    cached_word& word = cache->words[class_index];
    const unsigned bit = word.pop();
    std::atomic_ref(word.marks[bit]).store(live_mark::live, std::memory_order_release);
    return word.block(bit);
}

HF_HOT bool block_allocator::try_free(void* block) noexcept {
    const base::heap_offset offset = space_.offset(block);
    const base::granule slab = base::granule_of(offset);
    if (slab.value < pool_.table().granules()) [[likely]] {
        const std::uint8_t state = pool_.table().state(slab);
        if (slab_state::is_unwatched(state)) [[likely]] {
            std::uint8_t* const mark = pool_.table().mark_at(offset.value, state & slab_state::class_bits);
            if (mark != nullptr && std::atomic_ref(*mark).load(std::memory_order_acquire) == live_mark::live)
                [[likely]] {
                std::atomic_ref(*mark).store(live_mark::free, std::memory_order_release);
                pool_.note_free(slab);
                return true;
            }
        }
    }
    return free_rarely(block);
}

// --- in two steps ---------------------------------------------------------------------------------------------------

HF_HOT held_block block_allocator::small_block(std::uint64_t offset, unsigned class_index,
                                               std::uint8_t* mark) const noexcept {
    const size_class& kind = size_classes[class_index];
    const std::uint32_t index = block_index(kind, offset % base::granule_size);
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    const base::granule slab = base::granule_of(base::heap_offset{offset});
    return {offset,
            {lane::block_kind::small, kind.block_size, pool_.table().type(slab)},
            {pool_.table().live_address(slab) + index / 64, bit, bit},
            mark};
}

HF_HOT bool block_allocator::hold(thread_cache* cache, std::size_t bytes, std::size_t alignment,
                                  held_block& held) noexcept {
    const unsigned class_index = class_for(bytes, alignment);
    if (class_index == no_class) [[unlikely]] {
        return hold_pages(bytes, alignment, 0, held);
    }
    if (cache == nullptr || cache->words[class_index].free_bits == 0) [[unlikely]] {
        return hold_rarely(cache, class_index, held);
    }
    hold_next(cache->words[class_index], held);
    return true;
}

HF_HOT void block_allocator::hold_next(cached_word& word, held_block& held) noexcept {
    const unsigned bit = word.pop();
    std::atomic_ref(word.marks[bit]).store(live_mark::held, std::memory_order_relaxed);
    held.offset = space_.offset(word.block(bit)).value;
    held.block = {lane::block_kind::small, word.block_size, 0};
    held.place.word = pool_.table().live_address({std::uint64_t{word.slab} - 1}) + word.word;
    held.place.mask = held.place.set = std::uint64_t{1} << bit;
    held.mark = word.marks + bit;
}

/// Whether the offset is the start of an allocated block of that loaded slab.
HF_HOT bool block_allocator::find_in_slab(std::uint64_t offset, unsigned class_index,
                                          held_block& found) const noexcept {
    std::uint8_t* const mark = pool_.table().mark_at(offset, class_index);
    if (mark == nullptr || std::atomic_ref(*mark).load(std::memory_order_acquire) != live_mark::live) [[unlikely]] {
        return false;
    }
    found = small_block(offset, class_index, mark);
    return true;
}

HF_HOT bool block_allocator::find_allocated(const void* block, held_block& found) noexcept {
    const base::heap_offset offset = space_.offset(block);
    const base::granule slab = base::granule_of(offset);
    if (slab.value < pool_.table().granules()) [[likely]] {
        const std::uint8_t state = pool_.table().state(slab);
        if (slab_state::is_loaded(state)) [[likely]] {
            if (find_in_slab(offset.value, state & slab_state::class_bits, found)) [[likely]] {
                return true;
            }
            leave_refusal(block);
            return false;
        }
    }
    return find_rarely(block, found);
}

HF_HOT void block_allocator::release(thread_cache* cache, const held_block& held) noexcept {
    if (held.is_small()) [[likely]] {
        std::atomic_ref(*held.mark).store(live_mark::free, std::memory_order_release);
        pool_.note_free(base::granule_of(base::heap_offset{held.offset}));
        return;
    }
    release_pages(cache, held);
}

}  // namespace holdfast::slab
