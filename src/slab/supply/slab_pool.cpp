#include "slab/supply/slab_pool.hpp"

namespace holdfast::slab {

base::result<void> slab_pool::reset() {
    HF_TRY(state_.table.reset(state_.space));
    bins_.reset(state_.extents.nodes());
    loader_.reset();
    upkeep_.reset();
    morpher_.reset();
    remote_.start(upkeep_, state_.table, state_.extents.nodes(), state_.space.shape().granules());
    state_.pins.clear();
    state_.demand.reset();
    supply_.reset();
    return {};
}

void slab_pool::hand_out(std::uint64_t offset) const noexcept {
    const slab_kind kind = state_.table.kind_in(base::granule_of(base::heap_offset{offset}));
    std::atomic_ref(*state_.table.block_state_at(offset, kind)).store(block_state::live, std::memory_order_release);
}

bool slab_pool::is_idle(slab_part part) const noexcept {
    const slab_kind kind = state_.table.kind_in(part.slab);
    const block_range blocks = part.blocks(kind.size());
    for (std::size_t word = blocks.first_word(); word < blocks.end_word(); ++word) {
        const std::uint64_t all = blocks.bits(word);
        if ((state_.table.free_bits(part.slab, kind, word) & all) != all) {
            return false;
        }
    }
    return true;
}

void slab_pool::release_empty() noexcept {
    loader_.load_all();
    upkeep_.inspect_every_slab();
    empties_.release_all();
}

}  // namespace holdfast::slab
