#include "slab/pool/slab_loader.hpp"

#include <algorithm>
#include <utility>

#include "slab/pool/slab_check.hpp"

namespace holdfast::slab {

using base::granule;

void slab_loader::reset() {
    unloaded_slabs_ = std::make_unique<unloaded_slabs[]>(std::size_t{of_.extents.nodes()} * class_count);
    recorded_end_ = 0;
}

void slab_loader::record(granule found) {
    const segment::slab_header_on_media& header = of_.space.slab_header(found);
    recorded_end_ = found.value + 1;
    if (!is_sound(header)) {
        of_.table.set_state(found, slab_state::quarantined);
        return;
    }
    const unsigned class_index = class_of_block_size(header.block_size);
    of_.table.set_morph_state(found, morph_state_of(header));
    if (header.type != 0) {
        const auto type = static_cast<std::uint32_t>(header.type);
        bins_.typed(class_index, type).waiting.push_back(static_cast<std::uint32_t>(found.value));
        of_.table.set_type(found, type);
        of_.table.set_state(found, slab_state::unloaded(class_index));
        return;
    }
    of_.table.set_state(found, slab_state::unloaded(class_index));
    ++unloaded_slabs_of(of_.node_of(found), class_index).count;  // no other thread is here yet
}

bool slab_loader::load_next(slab_bin& owner) noexcept {
    if (owner.type != 0) {
        return load_next_typed(static_cast<typed_bin&>(owner));
    }
    const std::uint32_t node = of_.node_of_arena(owner.arena);
    unloaded_slabs& waiting = unloaded_slabs_of(node, owner.class_index);
    const base::scoped_lock lock(waiting.mutex);
    if (waiting.count == 0) {
        return false;
    }
    const std::uint8_t wanted = slab_state::unloaded(owner.class_index);
    while (waiting.cursor < recorded_end_ &&
           (of_.table.state({waiting.cursor}) != wanted || of_.table.type({waiting.cursor}) != 0 ||
            of_.node_of({waiting.cursor}) != node)) {
        ++waiting.cursor;
    }
    if (waiting.cursor == recorded_end_) {
        if (waiting.first_refused < recorded_end_) {
            waiting.cursor = std::exchange(waiting.first_refused, unloaded_slabs::none);
        } else {
            waiting.count = 0;
        }
        return false;
    }
    const granule next{waiting.cursor++};
    if (load_into(owner, next)) {
        --waiting.count;
    } else {
        waiting.first_refused = std::min(waiting.first_refused, next.value);
    }
    return true;
}

base::result<void> slab_loader::load(granule unloaded, unsigned arena) noexcept {
    const std::uint8_t state = of_.table.state(unloaded);
    if (!slab_state::is_unloaded(state)) {
        return {};
    }
    const unsigned class_index = slab_state::class_of(state);
    if (of_.table.type(unloaded) != 0) {
        return load_typed(unloaded, class_index);
    }
    const std::uint32_t node = of_.node_of(unloaded);
    slab_bin& owner = bins_.of(arena - of_.node_of_arena(arena) + node, class_index);
    unloaded_slabs& waiting = unloaded_slabs_of(node, class_index);
    const base::scoped_lock lock(owner.mutex);
    const base::scoped_lock waiting_lock(waiting.mutex);
    if (of_.table.state(unloaded) == slab_state::unloaded(class_index)) {
        HF_TRY(load_into(owner, unloaded));
        --waiting.count;
    }
    return {};
}

/// Fails, and nothing is changed, where the bitmap gets no space on disk, as in a copy with holes: no damage, and there
/// may be space later.
base::result<void> slab_loader::load_into(slab_bin& owner, granule slab) noexcept {
    HF_TRY(source_.back_bitmap(slab, segment::bitmap_verifier::slab_is::loaded));
    if (!source_.admits(slab) || !has_clean_bitmap(of_.table, slab) || !has_disjoint_blocks(of_.table, slab)) {
        of_.table.set_state(slab, slab_state::quarantined);
        return {};
    }
    lists_.adopt(owner, slab);
    overlapped_.load_states(slab);
    if (segment::decode_slab_flags(of_.space.slab_header(slab).flags).may_have_holes) {
        lists_.link_sparse(owner, slab);
        upkeep_.relist_sparse(owner, slab);
    } else {
        upkeep_.relist(owner, slab, 1);
    }
    return {};
}

void slab_loader::load_all() noexcept {
    bins_.for_each([this](slab_bin& owner) {
        const base::scoped_lock lock(owner.mutex);
        while (load_next_of_all(owner)) {
        }
    });
}

bool slab_loader::load_next_typed(typed_bin& owner) noexcept {
    while (owner.waiting.size() > owner.refused) {
        const granule slab{owner.waiting.back()};
        // Loaded by a free, or replaced by a new slab: it is never unloaded again.
        if (of_.table.state(slab) != slab_state::unloaded(owner.class_index)) {
            owner.waiting.pop_back();
            continue;
        }
        if (load_into(owner, slab)) {
            owner.waiting.pop_back();
        } else {
            std::swap(owner.waiting.back(), owner.waiting[owner.refused++]);
        }
        return true;
    }
    owner.refused = 0;
    return false;
}

base::result<void> slab_loader::load_typed(granule unloaded, unsigned class_index) noexcept {
    typed_bin* const owner = bins_.find_typed(class_index, of_.table.type(unloaded));
    if (owner == nullptr) {
        return {};  // another thread loaded it, and made another slab
    }
    const base::scoped_lock lock(owner->mutex);
    if (of_.table.state(unloaded) == slab_state::unloaded(class_index)) {
        return load_into(*owner, unloaded);
    }
    return {};
}

}  // namespace holdfast::slab
