#include "slab/calls/node_blocks.hpp"

namespace holdfast::slab {

using base::granule;

/// The state is null where no block begins there.
block_at node_blocks::of(std::uint64_t offset, slab_kind kind) noexcept {
    const thread_cache* const cache = core_.find_cache();
    return {base::granule_of(base::heap_offset{offset}), kind, core_.pool.table().block_state_at(offset, kind),
            cache == nullptr ? remote_frees::no_node : core_.pool.remote().node_of_arena(cache->arena)};
}

block_at node_blocks::of(const held_block& held) noexcept {
    return of(held.offset, slab_kind(held.class_index, bank_of(held.block.upper)));
}

bool node_blocks::free(void* block, base::granule slab, std::uint8_t state) noexcept {
    for (const slab_kind kind : core_.pool.table().kinds_in(slab, state)) {
        const block_at what = of(core_.space.offset(block).value, kind);
        const auto done = what.state == nullptr ? remote_frees::outcome::refused : core_.pool.remote().free(what);
        if (done == remote_frees::outcome::at_home) {
            core_.pool.note_free(slab);
        }
        if (done != remote_frees::outcome::refused) {
            return true;
        }
    }
    inspector_.leave_refusal(block);
    return false;
}

bool node_blocks::find(const void* block, base::granule slab, std::uint8_t state, held_block& found) noexcept {
    const std::uint64_t offset = core_.space.offset(block).value;
    for (const slab_kind kind : core_.pool.table().kinds_in(slab, state)) {
        const block_at what = of(offset, kind);
        if (what.state != nullptr && core_.pool.remote().is_live(what)) {
            found = core_.small_block(offset, kind, nullptr);
            return true;
        }
    }
    inspector_.leave_refusal(block);
    return false;
}

bool node_blocks::claim(const held_block& found) noexcept { return core_.pool.remote().claim(of(found)); }

void node_blocks::unclaim(const held_block& found) noexcept { core_.pool.remote().unclaim(of(found)); }

void node_blocks::clear(const held_block& found) noexcept { core_.pool.remote().clear(of(found)); }

void node_blocks::hold(held_block& found) noexcept {
    const block_at what = of(found);
    core_.pool.remote().hold(what);
    found.state = what.state;
}

void node_blocks::release(const held_block& held) noexcept {
    const block_at what = of(held);
    core_.pool.remote().release(what);
    if (!core_.pool.remote().is_remote(what)) {
        core_.pool.note_free(what.slab);
    }
}

}  // namespace holdfast::slab
