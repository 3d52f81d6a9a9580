// How block_allocator frees small blocks in heaps with several nodes, and how its threads follow the processor that
// they run on. Nothing here is called in heaps with one node.
#include "slab/slab.hpp"

namespace holdfast::slab {

namespace {

/// Refills between two looks of a thread at what other nodes have freed of its own; between two at where it runs.
constexpr unsigned refills_a_look = 16;
constexpr unsigned refills_a_place = 64;

}  // namespace

/// A block of a loaded slab of the class, and this thread's node. Its mark is null where none begins at the offset.
block_at block_allocator::by_node(std::uint64_t offset, unsigned class_index) noexcept {
    const thread_cache* const cache = find_cache();
    return {base::granule_of(base::heap_offset{offset}), class_index, pool_.table().mark_at(offset, class_index),
            cache == nullptr ? remote_frees::no_node : pool_.remote().node_of_arena(cache->arena)};
}

/// As free_cached(), of a loaded slab.
bool block_allocator::free_by_node(void* block, base::granule slab, unsigned class_index) noexcept {
    const block_at what = by_node(space_.offset(block).value, class_index);
    const auto done = what.mark == nullptr ? remote_frees::outcome::refused : pool_.remote().free(what);
    if (done == remote_frees::outcome::refused) [[unlikely]] {
        leave_refusal(block);
        return false;
    }
    if (done == remote_frees::outcome::at_home) {
        pool_.note_free(slab);
    }
    return true;
}

bool block_allocator::find_by_node(const void* block, base::granule /*slab*/, unsigned class_index,
                                   held_block& found) noexcept {
    const std::uint64_t offset = space_.offset(block).value;
    const block_at what = by_node(offset, class_index);
    if (what.mark == nullptr || !pool_.remote().is_live(what)) [[unlikely]] {
        leave_refusal(block);
        return false;
    }
    found = small_block(offset, class_index, nullptr);
    return true;
}

bool block_allocator::claim_by_node(const held_block& found) noexcept {
    return pool_.remote().claim(by_node(found.offset, found.class_index));
}

void block_allocator::clear_by_node(const held_block& found) noexcept {
    pool_.remote().clear(by_node(found.offset, found.class_index));
}

void block_allocator::hold_by_node(held_block& found) noexcept {
    const block_at what = by_node(found.offset, found.class_index);
    pool_.remote().hold(what);
    found.mark = what.mark;
}

void block_allocator::release_by_node(const held_block& held) noexcept {
    const block_at what = by_node(held.offset, held.class_index);
    pool_.remote().release(what);
    if (!pool_.remote().is_remote(what)) {
        pool_.note_free(what.slab);
    }
}

void block_allocator::before_refill(thread_cache& cache) noexcept {
    if (++cache.refills % refills_a_look == 0) {
        pool_.remote().merge_if_due(cache.arena % pool_.remote().nodes());
    }
    if (cache.refills % refills_a_place == 0) {
        follow_this_thread();
    }
}

bool block_allocator::follow_this_thread() noexcept {
    thread_cache* const cache = pool_.remote().active() ? find_cache() : nullptr;
    const unsigned node = cache == nullptr ? 0 : machine_.current_node();
    if (cache == nullptr || cache->machine_node == node) {
        return false;
    }
    cache->give_back_all(pool_);
    thread_cache_registry::move(*cache, caches_, node);
    return true;
}

// --- the pool -------------------------------------------------------------------------------------------------------

/// Before a new slab is made: what other nodes have freed of this one's.
void slab_pool::fetch_remote_frees(unsigned arena) noexcept {
    if (remote_.active()) {
        remote_.merge(arena % extents_.nodes());
    }
}

/// The offset of a block of a slab that is known, or one of so many that are loaded for it; 0 where there is none.
std::uint64_t slab_pool::take_known(bin& from, int most_loads) noexcept {
    const base::scoped_lock lock(from.mutex);
    std::uint64_t taken = take_listed(from);
    for (int loads = 0; taken == 0 && loads < most_loads && load_next(from); ++loads) {
        taken = take_listed(from);
    }
    return taken;
}

}  // namespace holdfast::slab
