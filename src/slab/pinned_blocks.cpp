#include "slab/pinned_blocks.hpp"

#include "slab/slab.hpp"

namespace holdfast::slab {

using base::granule;
using base::heap_offset;

pin_place block_allocator::unpin(const void* block) noexcept {
    const heap_offset offset = space_.offset(block);
    const granule slab = base::granule_of(offset);
    if (slab.value < pool_.table().granules() && slab_state::is_unloaded(pool_.table().state(slab))) {
        // Load the slab first: otherwise a thread that loads it now could mark the block pinned after the pin has
        // ended. Where the slab cannot be loaded, the free that follows reports it.
        const thread_cache* const cache = find_cache();
        static_cast<void>(pool_.loader().load(slab, cache == nullptr ? 0 : cache->arena).ok());
    }
    pin_place place = pool_.pins().remove(offset.value);
    pool_.table().replace_mark(offset.value, live_mark::pinned, live_mark::live);
    return place;
}

}  // namespace holdfast::slab
