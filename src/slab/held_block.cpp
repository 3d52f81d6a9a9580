// Allocation and free in two steps: these functions choose or find the block; the change that makes it allocated or
// free comes later. In durability `atomic` the caller makes it, after a durable record; for a reserved block, when the
// block is published.
#include <exception>
#include <utility>

#include "slab/slab.hpp"

namespace holdfast::slab {

using base::heap_offset;
using base::pages;
using segment::extent_kind;

std::uint8_t* block_allocator::mark_of(std::uint64_t offset, lane::block_word block) const noexcept {
    const base::granule slab = base::granule_of(heap_offset{offset});
    const std::uint8_t state = pool_.table().state(slab);
    const unsigned class_index = class_of_block_size(block.length);
    if (!slab_state::is_loaded(state) || class_index == no_class) {
        return nullptr;
    }
    const unsigned wanted = class_index | (block.upper ? slab_state::upper_bank : 0);
    const std::uint8_t second = pool_.table().second(slab);
    const bool there = slab_state::kind_of(state) == wanted ||
                       (second_life::has_old(second) && second_life::old_kind(second) == wanted);
    return there ? pool_.table().mark_at(offset, wanted) : nullptr;
}

/// Holds a block of whole pages.
bool block_allocator::hold_pages(std::size_t bytes, std::size_t alignment, std::uint32_t type,
                                 held_block& held) noexcept {
    const rare_call call(gate_);
    if (!call.is_first()) {
        leave_interruption();
        return false;
    }
    const extent::extent taken = take_pages(bytes, alignment, extent_kind::reserved, 0);
    held.offset = base::offset_of(taken.start).value;
    held.block = {lane::block_kind::pages, taken.length.value, type};
    held.mark = nullptr;
    held.place = lane::place_of(space_, held.offset, held.block);
    return taken.start.value != 0;
}

void block_allocator::keep(const held_block& held) noexcept {
    if (held.is_small()) {
        const base::granule slab = base::granule_of(heap_offset{held.offset});
        if (!slab_state::is_unwatched(pool_.table().state(slab))) {
            pool_.upkeep().note_change(slab);  // a commit came after it was taken
        }
        std::atomic_ref(*held.mark).store(live_mark::live, std::memory_order_release);
    } else {
        const rare_call call(gate_);
        extents_.hand_out(base::page_of(heap_offset{held.offset}), {held.block.length}, held.block.type);
    }
}

bool block_allocator::resize_pages(const held_block& found, std::size_t bytes) noexcept {
    if (found.class_index != no_class || class_of(bytes, 1) != no_class) {
        return false;
    }
    const rare_call call(gate_);
    try {
        return call.is_first() && extents_.resize(base::page_of(heap_offset{found.offset}), base::pages_for(bytes));
    } catch (const std::bad_alloc&) {  // no memory for a failure's text
        return false;
    }
}

/// Holds a small block, for a thread without a cache or whose cache has none of the class.
bool block_allocator::hold_rarely(thread_cache* cache, unsigned class_index, held_block& held) noexcept {
    const rare_call call(gate_, cache);
    if (!call.is_first()) {
        leave_interruption();
        return false;
    }
    if (cache == nullptr) {
        return hold_one(class_index, 0, held);
    }
    if (cache->classes[class_index].is_empty() && !refill(*cache, class_index)) {
        return false;
    }
    cached_blocks& blocks = cache->classes[class_index];
    hold_at(blocks, blocks.try_pop(), class_index, held);
    return true;
}

bool block_allocator::hold_one(unsigned class_index, std::uint32_t type, held_block& held) noexcept {
    const std::uint64_t offset = take_one(class_index, type);
    if (offset == 0) {
        return false;
    }
    const unsigned kind = slab_state::kind_of(pool_.table().state(base::granule_of(heap_offset{offset})));
    held = small_block(offset, kind, pool_.table().mark_at(offset, kind));
    return true;
}

/// Finds an older block of a morphed slab, or leaves the failure.
bool block_allocator::find_old(const void* block, held_block& found) noexcept {
    const heap_offset offset = space_.offset(block);
    if (std::uint8_t* const mark = pool_.table().old_mark_at(offset.value)) {
        const auto whole = find_small(offset.value);  // nothing where another thread frees it now
        if (whole && whole->start == offset.value) {
            found = small_block(offset.value, whole->kind, mark);
            return true;
        }
    }
    leave_refusal(block);
    return false;
}

/// Finds a block of an unloaded slab or of whole pages, or leaves the failure.
bool block_allocator::find_rarely(const void* block, held_block& found) noexcept {
    const rare_call call(gate_);
    const heap_offset offset = space_.offset(block);
    const base::granule slab = base::granule_of(offset);
    if (slab.value < pool_.table().granules() && caches_.pool != nullptr) {
        const std::uint8_t state = pool_.table().state(slab);
        if (slab_state::is_unloaded(state)) {
            const thread_cache* const cache = find_cache();
            if (auto loaded = pool_.loader().load(slab, cache == nullptr ? 0 : cache->arena); !loaded) {
                leave(std::move(loaded).error());
                return false;
            }
            return find_allocated(block, found);  // loaded now, or quarantined
        }
        if (slab_state::is_loaded(state) && pool_.remote().active()) {
            return find_by_node(block, slab, state, found);
        }
        if (slab_state::is_loaded(state)) {
            return find_allocated(block, found);  // another thread loaded it meanwhile
        }
        if (state == slab_state::none && offset.value % base::page_size == 0 &&
            !pool_.pins().contains_pages(offset.value)) {
            const auto entry = extents_.find(base::page_of(offset));
            if (entry && entry->kind == extent_kind::used) {
                found.offset = offset.value;
                found.block = {lane::block_kind::pages, entry->length.value, entry->type};
                found.mark = nullptr;
                found.place = lane::place_of(space_, found.offset, found.block);
                return true;
            }
        }
    }
    leave_refusal(block);
    return false;
}

bool block_allocator::is_within_allocated(heap_offset offset) const noexcept {
    const base::granule slab = base::granule_of(offset);
    if (slab.value >= pool_.table().granules()) {
        return false;
    }
    const std::uint8_t state = pool_.table().state(slab);
    if (state == slab_state::none) {
        const auto around = extents_.containing(base::page_of(offset));
        return around && around->kind == extent_kind::used;
    }
    return find_small(offset.value).has_value();
}

/// Releases a block of whole pages, or one that is_by_node().
void block_allocator::release_pages(thread_cache* cache, const held_block& held) noexcept {
    const rare_call call(gate_, cache);
    if (held.is_by_node()) {
        if (hardened_) {
            keep_back_by_node(cache, held);
        } else {
            release_by_node(held);
        }
        return;
    }
    const pages start = base::page_of(heap_offset{held.offset});
    const pages length{held.block.length};
    if (cached_extents_.keeps(length)) {
        cached_extents_.put(cache == nullptr ? 0 : cache->arena, {start, length, extent_kind::reserved});
        return;
    }
    try {
        // It cannot be freed where its page entry was overwritten; check() names it.
        static_cast<void>(extents_.free(start, extent_kind::reserved).ok());
    } catch (const std::bad_alloc&) {  // no memory for a failure's text
    }
}

}  // namespace holdfast::slab
