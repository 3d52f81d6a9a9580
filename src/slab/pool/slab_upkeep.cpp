#include "slab/pool/slab_upkeep.hpp"

#include <algorithm>
#include <bit>

#include "extent/decay.hpp"

namespace holdfast::slab {

using base::granule;

void slab_upkeep::relist(slab_bin& owner, granule slab, std::uint32_t worth) noexcept {
    slab_descriptor& descriptor = of_.table.descriptor(slab);
    const std::int32_t before = descriptor.frees_until_check.load(std::memory_order_relaxed);
    const size_class& size = size_classes[owner.class_index];
    const overlapped_blocks::older_blocks older = overlapped_.free_overlapped(slab);
    const std::uint32_t taken = of_.table.count_not_free(slab, of_.table.kind_in(slab));
    if (taken == 0 && older.live == 0 && descriptor.parts_out == 0) {
        empties_.relist(owner, slab);
        return;
    }
    std::uint32_t free_blocks = size.block_count - taken;
    if (descriptor.parts_out != 0) {
        free_blocks = 0;
        for (std::size_t word = 0; word < words_of(size); ++word) {
            free_blocks += count_bits(bits_at_hand(slab, owner.class_index, word));
        }
    }
    auto until = static_cast<std::int32_t>(worth - free_blocks);
    if (free_blocks >= worth) {
        lists_.link(owner, slab, false);
        until = static_cast<std::int32_t>(taken - older.overlapped + older.live);
    }
    // Frees meanwhile may not have been counted: better too early than never.
    const std::int32_t meanwhile = before - descriptor.frees_until_check.load(std::memory_order_relaxed);
    descriptor.frees_until_check.store(std::max(until - meanwhile, 1), std::memory_order_relaxed);
}

void slab_upkeep::relist_sparse(slab_bin& owner, granule slab) noexcept {
    slab_descriptor& descriptor = of_.table.descriptor(slab);
    const std::int32_t before = descriptor.frees_until_check.load(std::memory_order_relaxed);
    const overlapped_blocks::older_blocks older = overlapped_.free_overlapped(slab);
    const std::uint32_t taken = of_.table.count_not_free(slab, of_.table.kind_in(slab));
    if (taken == 0 && older.live == 0 && !of_.keeps_slabs.load(std::memory_order_relaxed)) {
        lists_.unlink_sparse(owner, slab);
        source_.release(slab, owner.class_index, owner.type, false);
        return;
    }
    const auto live = static_cast<std::int32_t>(taken - older.overlapped + older.live);
    const std::int32_t meanwhile = before - descriptor.frees_until_check.load(std::memory_order_relaxed);
    descriptor.frees_until_check.store(std::max(live - meanwhile, 1), std::memory_order_relaxed);
}

void slab_upkeep::note_use(slab_bin& from, granule slab) const noexcept {
    if (of_.table.descriptor(slab).is_empty) {
        lists_.unlink(from, slab);
        lists_.link(from, slab, false);
    }
    of_.table.set_dirty(slab);
    from.last_use = of_.demand.now();
}

std::uint64_t slab_upkeep::bits_at_hand(granule slab, unsigned class_index, std::size_t word) const noexcept {
    const size_class& size = size_classes[class_index];
    std::uint64_t bits = of_.table.free_bits(slab, of_.table.kind_in(slab), word);
    for (unsigned out = of_.table.descriptor(slab).parts_out; out != 0; out &= out - 1) {
        bits &= ~blocks_of_parts(size, static_cast<unsigned>(std::countr_zero(out)), 1).bits(word);
    }
    return bits;
}

void slab_upkeep::inspect(granule slab, std::uint32_t worth) noexcept {
    const pool_call call(of_.gate);
    if (!slab_state::is_loaded(of_.table.state(slab))) {
        return;
    }
    slab_descriptor& descriptor = of_.table.descriptor(slab);
    slab_bin& owner = *descriptor.owner.load(std::memory_order_acquire);
    {
        const base::scoped_lock lock(owner.mutex);
        // The owner is read after the state: a new slab has its owner before it is loaded. After its last free, a slab
        // may have become another.
        if (slab_state::is_loaded(of_.table.state(slab)) &&
            descriptor.owner.load(std::memory_order_acquire) == &owner) {
            if (descriptor.is_sparse()) {
                relist_sparse(owner, slab);
                return;
            }
            if (descriptor.listed()) {
                lists_.unlink(owner, slab);
            }
            relist(owner, slab, worth == 0 ? this->worth(owner) : worth);
        }
    }
    age();
}

void slab_upkeep::age_alone() noexcept {
    const pool_call call(of_.gate);
    const std::uint64_t now = of_.extents.now();
    if (now >= next_age_.load(std::memory_order_relaxed) && now != 0) {
        age_at(now);
    }
}

/// Who comes late does more: a thread that calls seldom gives back as much as one that calls often.
void slab_upkeep::age_at(std::uint64_t now) noexcept {
    constexpr std::uint64_t step = extent::decay_curve::step_ns;
    constexpr std::uint64_t most_times = 64;
    constexpr unsigned extents_a_step = 4;
    if (!aging_.try_lock()) {
        return;
    }
    const std::uint64_t due = next_age_.load(std::memory_order_relaxed);
    const auto times = static_cast<unsigned>(
        due == 0 ? 1 : std::clamp((now - std::min(due, now)) / step, std::uint64_t{1}, most_times));
    bool more = empties_.decay(now, times);
    more = (caches_ != nullptr && caches_->age(now, times)) || more;
    more = of_.extents.space().decay(times * extents_a_step) || more;
    next_age_.store(more ? now : now + step, std::memory_order_relaxed);
    aging_.unlock();
}

void slab_upkeep::inspect_some(unsigned arena) noexcept {
    constexpr std::uint64_t few = 8;
    const std::uint32_t node = of_.node_of_arena(arena);
    const std::uint64_t all = of_.granules_of_node(node);
    const std::uint64_t from = scan_cursors_[node].at.fetch_add(few, std::memory_order_relaxed);
    for (std::uint64_t i = 0; i < few && all != 0; ++i) {
        inspect(of_.nth_of_node(node, (from + i) % all), 0);
    }
}

void slab_upkeep::inspect_every_slab() noexcept {
    const std::uint64_t end = of_.end().value;
    for (granule slab{0}; slab.value < end; ++slab.value) {
        inspect(slab, 1);
    }
}

void slab_upkeep::note_change(granule slab) noexcept {
    const pool_call call(of_.gate);
    slab_bin& owner = *of_.table.descriptor(slab).owner.load(std::memory_order_acquire);
    const base::scoped_lock lock(owner.mutex);
    if (slab_state::is_loaded(of_.table.state(slab)) &&
        of_.table.descriptor(slab).owner.load(std::memory_order_acquire) == &owner) {
        of_.table.set_dirty(slab);
    }
}

void slab_upkeep::write_bitmaps() noexcept {
    if (!of_.tracks_changes) {
        return;
    }
    of_.table.for_each_dirty(of_.end(), [this](granule slab) {
        const slab_kind kind = of_.table.kind_in(slab);
        of_.table.write_bitmap(slab, kind);
        if (!kind.is_upper() && !morph_state::has_old(of_.table.morph_state(slab))) {
            of_.table.set_morph_state(slab, 0);               // the other half is zero now
            if (of_.table.descriptor(slab).parts_out == 0) {  // a thread with a part allocates without notice
                of_.table.set_state(slab, slab_state::clean(kind.class_index()));
            }
        }
    });
}

}  // namespace holdfast::slab
