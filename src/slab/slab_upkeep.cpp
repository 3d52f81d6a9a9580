// How free blocks of slabs are noticed: a look at a slab settles in which list of its bin it belongs.
#include <algorithm>

#include "slab/commit_gate.hpp"
#include "slab/slab_pool.hpp"

namespace holdfast::slab {

using base::granule;

/// Settles a slab that is in no list: it is empty, or listed where at least `worth` of its blocks are free and in no
/// part that is out, or stays in no list.
void slab_pool::settle(bin& owner, granule slab, std::uint32_t worth) noexcept {
    slab_twin& twin = table_.twin(slab);
    const std::int32_t before = twin.countdown.load(std::memory_order_relaxed);
    const size_class& kind = size_classes[owner.class_index];
    const older_blocks older = uncover(slab);
    const std::uint32_t marked = table_.count_marked(slab, kind_in(slab));
    if (marked == 0 && older.live == 0 && twin.parts_out == 0) {
        settle_empty(owner, slab);
        return;
    }
    std::uint32_t free_blocks = kind.block_count - marked;
    if (twin.parts_out != 0) {
        free_blocks = 0;
        for (std::size_t word = 0; word < words_of(kind); ++word) {
            free_blocks += count_bits(bits_at_hand(slab, owner.class_index, word));
        }
    }
    auto until = static_cast<std::int32_t>(worth - free_blocks);
    if (free_blocks >= worth) {
        link(owner, slab, false);
        until = static_cast<std::int32_t>(marked - older.covered + older.live);
    }
    // Blocks that were freed meanwhile may or may not have been counted: better look too early than never.
    const std::int32_t meanwhile = before - twin.countdown.load(std::memory_order_relaxed);
    twin.countdown.store(std::max(until - meanwhile, 1), std::memory_order_relaxed);
}

/// Looks at a slab, if it is loaded, whatever its countdown says. `worth` 0: the usual number for its class.
void slab_pool::look_at(granule slab, std::uint32_t worth) noexcept {
    const rare_call call(gate_);
    if (!slab_state::is_loaded(table_.state(slab))) {
        return;
    }
    slab_twin& twin = table_.twin(slab);
    bin& owner = *twin.owner.load(std::memory_order_acquire);
    {
        const base::scoped_lock lock(owner.mutex);
        // Read the owner after the state: a slab that was made meanwhile has its owner before it is loaded. After the
        // last block of a slab became free, another thread may have found it empty and made another slab of it.
        if (slab_state::is_loaded(table_.state(slab)) && twin.owner.load(std::memory_order_acquire) == &owner) {
            if (twin.rests()) {
                settle_resting(owner, slab);
                return;
            }
            if (twin.listed()) {
                unlink(owner, slab);
            }
            settle(owner, slab, worth == 0 ? this->worth(owner) : worth);
        }
    }
    fade_empty();
}

/// Comes before a new slab is made. Of frees that came at once, some were not counted, and no countdown leads to a look
/// at such a slab. So all slabs are looked at, a few at a time; with several nodes, only those of the arena's node.
void slab_pool::look_at_some(unsigned arena) noexcept {
    constexpr std::uint64_t few = 8;
    const std::uint32_t node = arena % extents_.nodes();
    const std::uint64_t all = granules_of_node(node);
    const std::uint64_t from = hands_[node].look.fetch_add(few, std::memory_order_relaxed);
    for (std::uint64_t i = 0; i < few && all != 0; ++i) {
        look_at(nth_of_node(node, (from + i) % all), 0);
    }
}

void slab_pool::look_at_every_slab() noexcept {
    const std::uint64_t end = extents_.frontier().value / base::pages_per_granule;
    for (granule slab{0}; slab.value < end; ++slab.value) {
        look_at(slab, 1);
    }
}

void slab_pool::note_change(granule slab) noexcept {
    const rare_call call(gate_);
    bin& owner = *table_.twin(slab).owner.load(std::memory_order_acquire);
    const base::scoped_lock lock(owner.mutex);
    if (slab_state::is_loaded(table_.state(slab)) &&
        table_.twin(slab).owner.load(std::memory_order_acquire) == &owner) {
        unwatch(slab, owner.class_index);
    }
}

void slab_pool::write_bitmaps() noexcept {
    if (!tracks_changes_) {
        return;
    }
    const std::uint64_t end = extents_.frontier().value / base::pages_per_granule;
    for (granule slab{0}; slab.value < end; ++slab.value) {
        const std::uint8_t state = table_.state(slab);
        if (!slab_state::is_unwatched(state)) {
            continue;
        }
        const unsigned kind = slab_state::kind_of(state);
        table_.write_bitmap(slab, kind);
        if (kind < slab_state::upper_bank && !second_life::has_old(table_.second(slab))) {
            table_.set_second(slab, 0);              // the other half is zero now
            if (table_.twin(slab).parts_out == 0) {  // a thread with a part allocates without notice
                table_.set_state(slab, slab_state::watched(kind));
            }
        }
    }
}

}  // namespace holdfast::slab
