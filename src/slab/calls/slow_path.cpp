#include "slab/calls/slow_path.hpp"

#include <new>
#include <utility>

#include "slab/calls/hardened.hpp"
#include "slab/calls/last_failure.hpp"

namespace holdfast::slab {

using base::failure_code;
using base::granule;
using base::heap_offset;
using base::pages;
using segment::extent_kind;

bool slow_path::free(void* block) noexcept {
    const slow_call call(core_.gate);
    if (!call.is_first()) {
        leave_interruption();
        return false;
    }
    return free_inside(block);
}

bool slow_path::free_inside(void* block) noexcept {
    const heap_offset offset = core_.space.offset(block);
    const granule slab = base::granule_of(offset);
    try {
        if (slab.value < core_.pool.table().granules()) {
            const std::uint8_t state = core_.pool.table().state(slab);
            if (slab_state::is_unloaded(state)) {
                // Once it is loaded or quarantined, the block is looked for again.
                return load(slab) && (core_.fast_path.free(block) || free_inside(block));
            }
            if (slab_state::is_loaded(state) && core_.pool.remote().active()) {
                return nodes_.free(block, slab, state);
            }
            held_block found;
            if (slab_state::is_loaded(state) && core_.find_in_slab(offset.value, slab_state::kind_of(state), found)) {
                core_.pool.upkeep().note_change(slab);
                return core_.fast_path.free(block) || free_inside(block);
            }
            if (std::uint8_t* const old = core_.pool.table().old_block_state_at(offset.value)) {
                std::atomic_ref(*old).store(block_state::free, std::memory_order_release);
                core_.pool.note_free(slab);
                return true;
            }
            if (state == slab_state::none && offset.value % base::page_size == 0 &&
                !core_.pool.pins().contains_pages(offset.value)) {
                return pages_.free(base::page_of(offset));
            }
        }
    } catch (const std::bad_alloc&) {  // no memory for a failure's text: nothing was changed
    }
    leave_failure(failure_code::bad_address, [&] { return inspector_.refusal(block); });
    return false;
}

bool slow_path::find_old(const void* block, held_block& found) noexcept {
    const heap_offset offset = core_.space.offset(block);
    if (std::uint8_t* const state = core_.pool.table().old_block_state_at(offset.value)) {
        const auto whole = inspector_.find_small(offset.value);  // nothing where another thread frees it now
        if (whole && whole->start == offset.value) {
            found = core_.small_block(offset.value, whole->kind, state);
            return true;
        }
    }
    inspector_.leave_refusal(block);
    return false;
}

bool slow_path::find(const void* block, held_block& found) noexcept {
    const slow_call call(core_.gate);
    const heap_offset offset = core_.space.offset(block);
    const granule slab = base::granule_of(offset);
    if (slab.value >= core_.pool.table().granules() || core_.caches.pool == nullptr) {
        inspector_.leave_refusal(block);
        return false;
    }
    std::uint8_t state = core_.pool.table().state(slab);
    if (slab_state::is_unloaded(state)) {
        if (!load(slab)) {
            return false;
        }
        state = core_.pool.table().state(slab);
    }
    if (slab_state::is_loaded(state)) {
        if (core_.pool.remote().active()) {
            return nodes_.find(block, slab, state, found);
        }
        return core_.find_in_slab(offset.value, slab_state::kind_of(state), found) || find_old(block, found);
    }
    if (state == slab_state::none && offset.value % base::page_size == 0 &&
        !core_.pool.pins().contains_pages(offset.value)) {
        const auto entry = core_.extents.find(base::page_of(offset));
        if (entry && entry->kind == extent_kind::used) {
            found.offset = offset.value;
            found.block = {lane::block_kind::pages, entry->length.value, entry->type};
            found.state = nullptr;
            found.place = lane::place_of(core_.space, found.offset, found.block);
            return true;
        }
    }
    inspector_.leave_refusal(block);
    return false;
}

bool slow_path::load(granule slab) noexcept {
    auto loaded = core_.pool.loader().load(slab, core_.arena());
    if (!loaded) {
        leave(std::move(loaded).error());
        return false;
    }
    return true;
}

void slow_path::release(thread_cache* cache, const held_block& held) noexcept {
    const slow_call call(core_.gate, cache);
    if (!held.is_by_node()) {
        pages_.release(cache, held);
    } else if (core_.hardened) {
        held_block taken = held;  // blocks in quarantine are known by their states
        nodes_.hold(taken);
        keep_back(core_.pool, cache, taken);
    } else {
        nodes_.release(held);
    }
}

}  // namespace holdfast::slab
