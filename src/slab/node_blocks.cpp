// How block_allocator frees small blocks in heaps with several nodes, and how its threads follow the processor that
// they run on. Nothing here is called in heaps with one node.
#include "slab/slab.hpp"

namespace holdfast::slab {

using base::granule;

namespace {

/// Refills of a thread between two looks at what other nodes have freed of its node's blocks, and between two looks at
/// the node that it runs on.
constexpr unsigned refills_a_look = 16;
constexpr unsigned refills_a_place = 64;

}  // namespace

/// The block of that kind in a loaded slab, and this thread's node. Its mark is null where no block begins at the
/// offset.
block_at block_allocator::by_node(std::uint64_t offset, unsigned kind) noexcept {
    const thread_cache* const cache = find_cache();
    return {base::granule_of(base::heap_offset{offset}), kind, pool_.table().mark_at(offset, kind),
            cache == nullptr ? remote_frees::no_node : pool_.remote().node_of_arena(cache->arena)};
}

block_at block_allocator::by_node(const held_block& held) noexcept {
    return by_node(held.offset, held.class_index | (held.block.upper ? slab_state::upper_bank : 0));
}

/// Frees as plain_blocks::free() does, in a loaded slab in that state.
bool block_allocator::free_by_node(void* block, base::granule slab, std::uint8_t state) noexcept {
    for (const unsigned kind : pool_.table().kinds_in(slab, state)) {
        const block_at what = by_node(space_.offset(block).value, kind);
        const auto done = what.mark == nullptr ? remote_frees::outcome::refused : pool_.remote().free(what);
        if (done == remote_frees::outcome::at_home) {
            pool_.note_free(slab);
        }
        if (done != remote_frees::outcome::refused) {
            return true;
        }
    }
    leave_refusal(block);
    return false;
}

bool block_allocator::find_by_node(const void* block, base::granule slab, std::uint8_t state,
                                   held_block& found) noexcept {
    const std::uint64_t offset = space_.offset(block).value;
    for (const unsigned kind : pool_.table().kinds_in(slab, state)) {
        const block_at what = by_node(offset, kind);
        if (what.mark != nullptr && pool_.remote().is_live(what)) {
            found = small_block(offset, kind, nullptr);
            return true;
        }
    }
    leave_refusal(block);
    return false;
}

bool block_allocator::claim_by_node(const held_block& found) noexcept { return pool_.remote().claim(by_node(found)); }

void block_allocator::clear_by_node(const held_block& found) noexcept { pool_.remote().clear(by_node(found)); }

void block_allocator::hold_by_node(held_block& found) noexcept {
    const block_at what = by_node(found);
    pool_.remote().hold(what);
    found.mark = what.mark;
}

void block_allocator::release_by_node(const held_block& held) noexcept {
    const block_at what = by_node(held);
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

}  // namespace holdfast::slab
