#include "slab/pool/overlapped_blocks.hpp"

#include <algorithm>
#include <bit>

#include "slab/pool/slab_check.hpp"

namespace holdfast::slab {

using base::granule;

namespace {

/// Those that share a byte with the block at that index.
block_range overlapping(const size_class& size, std::uint32_t index, const size_class& others) noexcept {
    const std::uint64_t begin = std::uint64_t{index} * size.block_size;
    const std::uint32_t last = block_index(others, begin + size.block_size - 1);
    return {block_index(others, begin), std::min<std::uint32_t>(last + 1, others.block_count)};
}

template <class Each>
void for_each_bit(const bits_of_half& bits, Each each) noexcept {
    for (std::uint32_t word = 0; word < bits.words; ++word) {
        for (std::uint64_t left = bits[word]; left != 0; left &= left - 1) {
            each(word * 64 + static_cast<std::uint32_t>(std::countr_zero(left)));
        }
    }
}

}  // namespace

bits_of_half taken_bits(const slab_table& table, granule slab, slab_kind kind) noexcept {
    bits_of_half taken(kind);
    for (std::size_t word = 0; word < taken.words; ++word) {
        taken[word] = ~table.free_bits(slab, kind, word) & valid_bits(kind.size(), word);
    }
    return taken;
}

std::uint32_t count(const bits_of_half& bits) noexcept {
    std::uint32_t set = 0;
    for (std::size_t word = 0; word < bits.words; ++word) {
        set += count_bits(bits[word]);
    }
    return set;
}

bits_of_half behind(const bits_of_half& blocks, slab_kind from, slab_kind to) noexcept {
    bits_of_half overlapped(to);
    for_each_bit(blocks, [&](std::uint32_t index) {
        const block_range range = overlapping(from.size(), index, to.size());
        for (std::uint32_t other = range.first; other < range.end; ++other) {
            overlapped[other / 64] |= std::uint64_t{1} << (other % 64);
        }
    });
    return overlapped;
}

void set_overlapped(const slab_table& table, granule slab, slab_kind kind, const bits_of_half& overlapped) noexcept {
    std::uint8_t* const states = table.block_states(slab, kind);
    for_each_bit(overlapped, [states](std::uint32_t index) {
        std::atomic_ref(states[index]).store(block_state::overlapped, std::memory_order_relaxed);
    });
}

bool has_disjoint_blocks(const slab_table& table, granule of) noexcept {
    const slab_kinds kinds = table.kinds_in(of, table.state(of));
    if (kinds.count < 2) {
        return true;
    }
    const auto live = [&](slab_kind kind) {
        bits_of_half bits(kind);
        for (std::size_t word = 0; word < bits.words; ++word) {
            bits[word] = table.live_bits(of, kind.first_word() + word);
        }
        return bits;
    };
    const bits_of_half overlapped = behind(live(kinds.kinds[1]), kinds.kinds[1], kinds.kinds[0]);
    const bits_of_half present = live(kinds.kinds[0]);
    for (std::size_t word = 0; word < present.words; ++word) {
        if ((overlapped[word] & present[word]) != 0) {
            return false;
        }
    }
    return true;
}

bool overlapped_are_taken(const slab_table& table, granule of) noexcept {
    const slab_kinds kinds = table.kinds_in(of, table.state(of));
    if (kinds.count < 2) {
        return true;
    }
    const bits_of_half overlapped = behind(taken_bits(table, of, kinds.kinds[1]), kinds.kinds[1], kinds.kinds[0]);
    const bits_of_half taken = taken_bits(table, of, kinds.kinds[0]);
    for (std::size_t word = 0; word < taken.words; ++word) {
        if ((overlapped[word] & ~taken[word]) != 0) {
            return false;
        }
    }
    return true;
}

void overlapped_blocks::load_states(granule slab) const noexcept {
    const slab_kinds kinds = of_.table.kinds_in(slab, of_.table.state(slab));
    const slab_kind present = kinds.kinds[0];
    of_.table.load_states(slab, present);
    if (kinds.count == 2) {
        if (of_.table.load_states(slab, kinds.kinds[1]) == 0) {
            of_.table.set_morph_state(slab, morph_state::make(present.bank(), no_class));
        } else {
            set_overlapped(of_.table, slab, present,
                           behind(taken_bits(of_.table, slab, kinds.kinds[1]), kinds.kinds[1], present));
        }
    }
    mark_pinned(slab, kinds);
    const bool clean = of_.tracks_changes && of_.table.morph_state(slab) == 0;
    of_.table.set_state(slab, clean ? slab_state::clean(present.class_index()) : slab_state::loaded(present));
}

overlapped_blocks::older_blocks overlapped_blocks::free_overlapped(granule slab) noexcept {
    const std::uint8_t morph = of_.table.morph_state(slab);
    if (!morph_state::has_old(morph)) {
        return {};
    }
    const slab_kind old = morph_state::old_kind(morph);
    const slab_kind present = of_.table.kind_in(slab);
    slab_descriptor& descriptor = of_.table.descriptor(slab);
    // Older blocks are never taken again, so an equal number means no change. Where few of many are gone, what they
    // overlapped waits: to find it takes a look at all block states.
    const std::uint32_t left_of_old = of_.table.count_not_free(slab, old);
    const std::uint32_t gone_since = descriptor.old_taken - left_of_old;  // large without a look so far
    const std::uint32_t worth_it =
        of_.demand.is_space_short() ? 1 : std::max<std::uint32_t>(descriptor.old_taken / 8, 1);
    const bool may_come_back = of_.keeps_slabs.load(std::memory_order_relaxed);
    if (may_come_back || (left_of_old != 0 && gone_since < worth_it)) {
        return {left_of_old, descriptor.old_overlapped};
    }
    const bits_of_half taken = taken_bits(of_.table, slab, old);  // older blocks may be freed meanwhile
    const bits_of_half still = behind(taken, old, present);
    std::uint8_t* const states = of_.table.block_states(slab, present);
    bits_of_half overlapped(present);
    bits_of_half gone(present);
    for (std::size_t word = 0; word < gone.words; ++word) {
        const std::uint64_t before = overlapped_bits_of(states + word * states_a_word);
        overlapped[word] = before & still[word];
        gone[word] = before & ~still[word];
    }
    if (of_.traced && count(gone) != 0) {
        write_old_bits(slab, old, taken.all);
    }
    for_each_bit(gone, [states](std::uint32_t index) {
        std::atomic_ref(states[index]).store(block_state::free, std::memory_order_release);
    });
    const older_blocks left{count(taken), count(overlapped)};
    descriptor.old_taken = static_cast<std::uint16_t>(left.live);
    descriptor.old_overlapped = static_cast<std::uint16_t>(left.overlapped);
    if (left.live == 0) {
        of_.table.set_morph_state(slab, morph_state::make(present.bank(), no_class));
    }
    return left;
}

void overlapped_blocks::write_old_bits(granule slab, slab_kind old_kind, std::span<const std::uint64_t> bits) noexcept {
    for (std::size_t word = 0; word < bits.size(); ++word) {
        of_.table.live_word(slab, old_kind.first_word() + word).store(bits[word], std::memory_order_relaxed);
    }
    if (of_.log != nullptr) {
        of_.log->old_blocks_written(slab);
    }
}

void overlapped_blocks::mark_pinned(granule slab, const slab_kinds& kinds) const noexcept {
    const std::uint64_t begin = base::offset_of(slab).value;
    of_.pins.for_each(begin, begin + base::granule_size, [&](std::uint64_t offset) {
        for (const slab_kind kind : kinds) {
            std::uint8_t* const state = of_.table.block_state_at(offset, kind);
            if (state != nullptr && *state == block_state::live) {
                *state = block_state::pinned;
            }
        }
    });
}

}  // namespace holdfast::slab
