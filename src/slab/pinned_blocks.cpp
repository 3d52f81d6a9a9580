#include "slab/pinned_blocks.hpp"

#include "slab/slab.hpp"

namespace holdfast::slab {

using base::granule;
using base::heap_offset;

void slab_pool::replace_mark(std::uint64_t offset, std::uint8_t from, std::uint8_t to) const noexcept {
    const granule slab = base::granule_of(base::heap_offset{offset});
    if (slab.value >= table_.granules() || !slab_state::is_loaded(table_.state(slab))) {
        return;
    }
    for (const unsigned kind : table_.kinds_in(slab, table_.state(slab))) {
        if (std::uint8_t* const mark = table_.mark_at(offset, kind)) {
            std::uint8_t expected = from;
            std::atomic_ref(*mark).compare_exchange_strong(expected, to, std::memory_order_acq_rel);
        }
    }
}

/// Marks the pinned blocks of a slab whose marks were just made.
void slab_pool::mark_pinned(granule slab, const slab_kinds& kinds) const noexcept {
    const std::uint64_t begin = base::offset_of(slab).value;
    pins_.for_each(begin, begin + base::granule_size, [&](std::uint64_t offset) {
        for (const unsigned kind : kinds) {
            std::uint8_t* const mark = table_.mark_at(offset, kind);
            if (mark != nullptr && *mark == live_mark::live) {
                *mark = live_mark::pinned;
            }
        }
    });
}

pin_place block_allocator::unpin(const void* block) noexcept {
    const heap_offset offset = space_.offset(block);
    const granule slab = base::granule_of(offset);
    if (slab.value < pool_.table().granules() && slab_state::is_unloaded(pool_.table().state(slab))) {
        // Load the slab first: otherwise a thread that loads it now could mark the block pinned after the pin has
        // ended. Where the slab cannot be loaded, the free that follows reports it.
        const thread_cache* const cache = find_cache();
        static_cast<void>(pool_.load(slab, cache == nullptr ? 0 : cache->arena).ok());
    }
    pin_place place = pool_.pins().remove(offset.value);
    pool_.replace_mark(offset.value, live_mark::pinned, live_mark::live);
    return place;
}

}  // namespace holdfast::slab
