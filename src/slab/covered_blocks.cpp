#include "slab/covered_blocks.hpp"

#include <algorithm>
#include <bit>

#include "slab/slab_check.hpp"

namespace holdfast::slab {

using base::granule;

namespace {

/// The blocks of `others` that share a byte with the block of `size` at that index.
block_range overlapping(const size_class& size, std::uint32_t index, const size_class& others) noexcept {
    const std::uint64_t begin = std::uint64_t{index} * size.block_size;
    const std::uint32_t last = block_index(others, begin + size.block_size - 1);
    return {block_index(others, begin), std::min<std::uint32_t>(last + 1, others.block_count)};
}

const size_class& size_of_kind(unsigned kind) noexcept { return size_classes[slab_state::class_of_kind(kind)]; }

/// Calls `each` with the index of every bit that is set.
template <class Each>
void for_each_bit(const bits_of_half& bits, Each each) noexcept {
    for (std::uint32_t word = 0; word < bits.words; ++word) {
        for (std::uint64_t left = bits[word]; left != 0; left &= left - 1) {
            each(word * 64 + static_cast<std::uint32_t>(std::countr_zero(left)));
        }
    }
}

}  // namespace

bits_of_half taken_bits(const slab_table& table, granule slab, unsigned kind) noexcept {
    bits_of_half taken(kind);
    for (std::size_t word = 0; word < taken.words; ++word) {
        taken[word] = ~table.free_bits(slab, kind, word) & valid_bits(size_of_kind(kind), word);
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

bits_of_half behind(const bits_of_half& blocks, unsigned from, unsigned to) noexcept {
    bits_of_half covered(to);
    for_each_bit(blocks, [&](std::uint32_t index) {
        const block_range range = overlapping(size_of_kind(from), index, size_of_kind(to));
        for (std::uint32_t other = range.first; other < range.end; ++other) {
            covered[other / 64] |= std::uint64_t{1} << (other % 64);
        }
    });
    return covered;
}

void cover(const slab_table& table, granule slab, unsigned kind, const bits_of_half& covered) noexcept {
    std::uint8_t* const marks = table.marks(slab, kind);
    for_each_bit(covered, [marks](std::uint32_t index) {
        std::atomic_ref(marks[index]).store(live_mark::covered, std::memory_order_relaxed);
    });
}

bool has_disjoint_blocks(const slab_table& table, granule of) noexcept {
    const slab_kinds kinds = table.kinds_in(of, table.state(of));
    if (kinds.count < 2) {
        return true;
    }
    const auto live = [&](unsigned kind) {
        bits_of_half bits(kind);
        for (std::size_t word = 0; word < bits.words; ++word) {
            bits[word] = table.live_bits(of, slab_state::first_word_of(kind) + word);
        }
        return bits;
    };
    const bits_of_half covered = behind(live(kinds.kinds[1]), kinds.kinds[1], kinds.kinds[0]);
    const bits_of_half present = live(kinds.kinds[0]);
    for (std::size_t word = 0; word < present.words; ++word) {
        if ((covered[word] & present[word]) != 0) {
            return false;
        }
    }
    return true;
}

bool covers_older(const slab_table& table, granule of) noexcept {
    const slab_kinds kinds = table.kinds_in(of, table.state(of));
    if (kinds.count < 2) {
        return true;
    }
    const bits_of_half covered = behind(taken_bits(table, of, kinds.kinds[1]), kinds.kinds[1], kinds.kinds[0]);
    const bits_of_half taken = taken_bits(table, of, kinds.kinds[0]);
    for (std::size_t word = 0; word < taken.words; ++word) {
        if ((covered[word] & ~taken[word]) != 0) {
            return false;
        }
    }
    return true;
}

void covered_blocks::load_marks(granule slab) const noexcept {
    const slab_kinds kinds = of_.table.kinds_in(slab, of_.table.state(slab));
    const unsigned present = kinds.kinds[0];
    of_.table.load_marks(slab, present);
    if (kinds.count == 2) {
        if (of_.table.load_marks(slab, kinds.kinds[1]) == 0) {
            of_.table.set_second(slab, second_life::make(present, no_class));
        } else {
            cover(of_.table, slab, present,
                  behind(taken_bits(of_.table, slab, kinds.kinds[1]), kinds.kinds[1], present));
        }
    }
    mark_pinned(slab, kinds);
    const bool watched = of_.tracks_changes && of_.table.second(slab) == 0;
    of_.table.set_state(slab, watched ? slab_state::watched(present) : slab_state::loaded(present));
}

covered_blocks::older_blocks covered_blocks::uncover(granule slab) noexcept {
    const std::uint8_t second = of_.table.second(slab);
    if (!second_life::has_old(second)) {
        return {};
    }
    const unsigned old = second_life::old_kind(second);
    const unsigned present = of_.table.kind_in(slab);
    slab_twin& twin = of_.table.twin(slab);
    // Older blocks are never taken again, so an equal number means that nothing changed. Where few of many are gone,
    // the blocks that they covered stay covered until more are gone: to find them takes a look at all marks.
    const std::uint32_t left_of_old = of_.table.count_marked(slab, old);
    const std::uint32_t gone_since = twin.old_taken - left_of_old;  // large where there was no look so far
    const std::uint32_t worth_it = of_.demand.is_space_short() ? 1 : std::max<std::uint32_t>(twin.old_taken / 8, 1);
    if (left_of_old != 0 && gone_since < worth_it) {
        return {left_of_old, twin.old_covered};
    }
    const bits_of_half taken = taken_bits(of_.table, slab, old);  // read once: older blocks may be freed meanwhile
    const bits_of_half still = behind(taken, old, present);
    std::uint8_t* const marks = of_.table.marks(slab, present);
    bits_of_half covered(present);
    bits_of_half gone(present);
    for (std::size_t word = 0; word < gone.words; ++word) {
        const std::uint64_t before = covered_bits_of(marks + word * marks_a_word);
        covered[word] = before & still[word];
        gone[word] = before & ~still[word];
    }
    if (of_.traced && count(gone) != 0) {
        write_old_bits(slab, old, taken.all);
    }
    for_each_bit(gone, [marks](std::uint32_t index) {
        std::atomic_ref(marks[index]).store(live_mark::free, std::memory_order_release);
    });
    const older_blocks left{count(taken), count(covered)};
    twin.old_taken = static_cast<std::uint16_t>(left.live);
    twin.old_covered = static_cast<std::uint16_t>(left.covered);
    if (left.live == 0) {
        of_.table.set_second(slab, second_life::make(present, no_class));
    }
    return left;
}

void covered_blocks::write_old_bits(granule slab, unsigned old_kind, std::span<const std::uint64_t> bits) noexcept {
    for (std::size_t word = 0; word < bits.size(); ++word) {
        of_.table.live_word(slab, slab_state::first_word_of(old_kind) + word)
            .store(bits[word], std::memory_order_relaxed);
    }
    if (of_.log != nullptr) {
        of_.log->old_blocks_written(slab);
    }
}

/// Marks the pinned blocks of a slab whose marks were just made.
void covered_blocks::mark_pinned(granule slab, const slab_kinds& kinds) const noexcept {
    const std::uint64_t begin = base::offset_of(slab).value;
    of_.pins.for_each(begin, begin + base::granule_size, [&](std::uint64_t offset) {
        for (const unsigned kind : kinds) {
            std::uint8_t* const mark = of_.table.mark_at(offset, kind);
            if (mark != nullptr && *mark == live_mark::live) {
                *mark = live_mark::pinned;
            }
        }
    });
}

}  // namespace holdfast::slab
