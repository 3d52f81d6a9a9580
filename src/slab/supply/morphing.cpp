#include "slab/supply/morphing.hpp"

#include <algorithm>

#include "lane/effects.hpp"

namespace holdfast::slab {

using base::granule;

namespace {

/// Percent of the new blocks. An idle class's last blocks would hold the slab.
constexpr unsigned overlapped_of_idle = 90;
constexpr unsigned overlapped_of_busy = 30;

}  // namespace

void slab_morpher::morph_some(slab_bin& wanted) noexcept {
    constexpr std::uint64_t looks = 16;  // bounds the cost where all slabs are full
    of_.demand.note_wanted();
    const std::uint32_t node = wanted.arena % of_.extents.nodes();
    const std::uint64_t all = of_.granules_of_node(node);
    if (!can_morph(wanted.class_index) || all == 0 || of_.keeps_slabs.load(std::memory_order_relaxed)) {
        return;
    }
    std::atomic<std::uint64_t>& cursor = scan_cursors_[node].at;
    const std::uint64_t from = cursor.fetch_add(looks, std::memory_order_relaxed);
    for (std::uint64_t i = 0; i < looks; ++i) {
        if (morph_into(wanted, of_.nth_of_node(node, (from + i) % all), std::nullopt)) {
            cursor.store(from + i + 1, std::memory_order_relaxed);  // the next slab is likely to fit, too
            return;
        }
    }
}

lane::block_word slab_word(slab_kind kind) noexcept {
    return {lane::block_kind::slab, kind.size().block_size, 0, kind.is_upper()};
}

bool slab_morpher::morph(granule slab, unsigned arena, unsigned class_index, unsigned overlapped_at_most) noexcept {
    return can_morph(class_index) && morph_into(bins_.of(arena, class_index), slab, overlapped_at_most);
}

bool slab_morpher::morph_into(slab_bin& wanted, granule slab, std::optional<unsigned> limit) noexcept {
    const std::uint8_t state = of_.table.state(slab);
    const unsigned class_index = slab_state::class_of(state);
    if (!slab_state::is_loaded(state) || class_index == wanted.class_index || !can_morph(class_index) ||
        of_.table.type(slab) != 0 || of_.node_of(slab) != wanted.arena % of_.extents.nodes()) {
        return false;
    }
    slab_descriptor& descriptor = of_.table.descriptor(slab);
    // Where a slab is listed or sparse, the counter is about the number of its live blocks.
    const std::int32_t left = descriptor.frees_until_check.load(std::memory_order_relaxed);
    if ((!descriptor.listed() && !descriptor.is_sparse()) || left <= 0 ||
        static_cast<std::uint32_t>(left) * 100 >
            size_classes[class_index].block_count * limit.value_or(overlapped_of_idle)) {
        return false;
    }
    slab_bin& owner = *descriptor.owner.load(std::memory_order_acquire);
    {
        const base::scoped_lock lock(owner.mutex);
        if (of_.table.state(slab) != state || descriptor.owner.load(std::memory_order_acquire) != &owner ||
            (!descriptor.listed() && !descriptor.is_sparse()) || descriptor.parts_out != 0 || descriptor.is_empty ||
            overlapped_.free_overlapped(slab).live != 0) {
            return false;
        }
        const unsigned overlapped_at_most =
            limit.value_or(of_.demand.now() - owner.last_use >= idle_after ? overlapped_of_idle : overlapped_of_busy);
        const slab_kind from = of_.table.kind_in(slab);
        const slab_kind to = from.opposite(wanted.class_index);
        const bits_of_half taken = taken_bits(of_.table, slab, from);
        const bits_of_half overlapped = behind(taken, from, to);
        if (count(overlapped) * 100 > size_classes[wanted.class_index].block_count * overlapped_at_most) {
            return false;
        }
        if (!descriptor.is_sparse()) {
            lists_.unlink(owner, slab);
        } else if (!sparse_.repopulate(owner, slab)) {  // a new block must not lie in a hole
            return false;
        }
        if (of_.traced) {
            overlapped_.write_old_bits(slab, from, taken.all);
        }
        set_overlapped(of_.table, slab, to, overlapped);
        become(wanted, slab, from, to);
    }
    upkeep_.inspect(slab, 1);
    return true;
}

/// The slab is in no list, and its overlapped blocks are marked.
void slab_morpher::become(slab_bin& wanted, granule slab, slab_kind from, slab_kind to) noexcept {
    if (of_.log != nullptr) {
        of_.log->slab_morphed(slab, from, to);
    } else {
        lane::switch_slab_header(of_.space, base::offset_of(slab).value, slab_word(to), slab_word(from),
                                 [](std::uint64_t& word, std::uint64_t value) {
                                     std::atomic_ref(word).store(value, std::memory_order_release);
                                 });
    }
    of_.table.set_morph_state(slab, morph_state::make(to.bank(), from.class_index()));
    of_.table.set_state(slab, slab_state::loaded(to));
    lists_.adopt(wanted, slab);  // the new owner may use it now
}

}  // namespace holdfast::slab
