// Slab morphing (PMAlloc 5.2): a slab with few live blocks becomes a slab of another class, so that memory that one
// size no longer needs serves another size.
//
// A slab has room for two classes: its bitmap on media has two halves, and its marks in DRAM two banks. Older blocks
// keep their bits and marks where they are: a thread that frees one does so in the usual way, even if it looked at the
// slab before the morph. The blocks of the new class have the other half and bank. New blocks that overlap an older
// block are `covered` and are not handed out. A later look at the slab makes those free that no longer overlap one.
//
// So nothing is moved, copied or indexed, and a morph is one change of the header. PMAlloc takes the least recently
// used slab. Here slabs are tried in order of address, and slabs that a thread allocates from are skipped.
#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "lane/effects.hpp"
#include "slab/slab_check.hpp"
#include "slab/slab_pool.hpp"

namespace holdfast::slab {

using base::granule;

namespace {

/// How many of the new blocks may overlap live ones, in percent: where the slab's class is idle, and where it is not,
/// so that its users would have to make another slab instead. An idle class allows more: its last blocks become free
/// over time, and would otherwise hold the slab.
constexpr unsigned covered_of_idle = 90;
constexpr unsigned covered_of_busy = 30;

/// A bit for each block of a kind.
struct bits_of_half {
    std::array<std::uint64_t, bitmap_words / 2> all{};
    std::size_t words = 0;  ///< words that stand for blocks

    explicit bits_of_half(unsigned kind) noexcept : words(slab_table::words_of_kind(kind)) {}
    [[nodiscard]] std::uint64_t& operator[](std::size_t word) noexcept { return all[word]; }
    [[nodiscard]] std::uint64_t operator[](std::size_t word) const noexcept { return all[word]; }
};

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

/// The blocks of a loaded slab that are not free, live or not.
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

/// The blocks of kind `to` that overlap these blocks of kind `from`.
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

}  // namespace

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

/// Makes the marks of a slab that is not loaded yet and whose bitmap was found right.
void slab_pool::load_marks(granule slab) const noexcept {
    const slab_kinds kinds = table_.kinds_in(slab, table_.state(slab));
    const unsigned present = kinds.kinds[0];
    table_.load_marks(slab, present);
    if (kinds.count == 2) {
        if (table_.load_marks(slab, kinds.kinds[1]) == 0) {
            table_.set_second(slab, second_life::make(present, no_class));
        } else {
            cover(table_, slab, present, behind(taken_bits(table_, slab, kinds.kinds[1]), kinds.kinds[1], present));
        }
    }
    mark_pinned(slab, kinds);
    const bool watched = tracks_changes_ && table_.second(slab) == 0;
    table_.set_state(slab, watched ? slab_state::watched(present) : slab_state::loaded(present));
}

/// Makes those covered blocks free that no longer overlap an older block: older blocks may have been freed since the
/// last look.
slab_pool::older_blocks slab_pool::uncover(granule slab) noexcept {
    const std::uint8_t second = table_.second(slab);
    if (!second_life::has_old(second)) {
        return {};
    }
    const unsigned old = second_life::old_kind(second);
    const unsigned present = kind_in(slab);
    slab_twin& twin = table_.twin(slab);
    // Older blocks are never taken again, so an equal number means that nothing changed. Where few of many are gone,
    // the blocks that they covered stay covered until more are gone: to find them takes a look at all marks.
    const std::uint32_t left_of_old = table_.count_marked(slab, old);
    const std::uint32_t gone_since = twin.old_taken - left_of_old;  // large where there was no look so far
    const std::uint32_t worth_it = is_space_short() ? 1 : std::max<std::uint32_t>(twin.old_taken / 8, 1);
    if (left_of_old != 0 && gone_since < worth_it) {
        return {left_of_old, twin.old_covered};
    }
    const bits_of_half taken = taken_bits(table_, slab, old);  // read once: older blocks may be freed meanwhile
    const bits_of_half still = behind(taken, old, present);
    std::uint8_t* const marks = table_.marks(slab, present);
    bits_of_half covered(present);
    bits_of_half gone(present);
    for (std::size_t word = 0; word < gone.words; ++word) {
        const std::uint64_t before = covered_bits_of(marks + word * marks_a_word);
        covered[word] = before & still[word];
        gone[word] = before & ~still[word];
    }
    if (traced_ && count(gone) != 0) {
        write_old_bits(slab, old, taken.all);
    }
    for_each_bit(gone, [marks](std::uint32_t index) {
        std::atomic_ref(marks[index]).store(live_mark::free, std::memory_order_release);
    });
    const older_blocks left{count(taken), count(covered)};
    twin.old_taken = static_cast<std::uint16_t>(left.live);
    twin.old_covered = static_cast<std::uint16_t>(left.covered);
    if (left.live == 0) {
        table_.set_second(slab, second_life::make(present, no_class));
    }
    return left;
}

/// Writes the bits of older blocks to the bitmap on media, which a trace reads.
void slab_pool::write_old_bits(granule slab, unsigned old_kind, std::span<const std::uint64_t> bits) noexcept {
    for (std::size_t word = 0; word < bits.size(); ++word) {
        table_.live_word(slab, slab_state::first_word_of(old_kind) + word).store(bits[word], std::memory_order_relaxed);
    }
    if (log_ != nullptr) {
        log_->old_blocks_written(slab);
    }
}

/// Comes before a new slab is made for the bin: looks for a slab that can be morphed instead.
void slab_pool::morph_some(bin& wanted) noexcept {
    constexpr std::uint64_t looks = 16;  // a cache line each: bounds the cost where all slabs are full
    wanted_.fetch_add(1, std::memory_order_relaxed);
    const std::uint32_t node = wanted.arena % extents_.nodes();
    const std::uint64_t all = granules_of_node(node);
    if (!can_morph(wanted.class_index) || all == 0) {
        return;
    }
    std::atomic<std::uint64_t>& hand = hands_[node].morph;
    const std::uint64_t from = hand.fetch_add(looks, std::memory_order_relaxed);
    for (std::uint64_t i = 0; i < looks; ++i) {
        if (morph_into(wanted, nth_of_node(node, (from + i) % all), std::nullopt)) {
            hand.store(from + i + 1, std::memory_order_relaxed);  // the next slab is likely to fit, too
            return;
        }
    }
}

lane::block_word slab_word(unsigned kind) noexcept {
    return {lane::block_kind::slab, size_of_kind(kind).block_size, 0, (kind & slab_state::upper_bank) != 0};
}

bool slab_pool::morph(granule slab, unsigned arena, unsigned class_index, unsigned covered_at_most) noexcept {
    return can_morph(class_index) && morph_into(bin_of(arena, class_index), slab, covered_at_most);
}

bool slab_pool::morph_into(bin& wanted, granule slab, std::optional<unsigned> limit) noexcept {
    const std::uint8_t state = table_.state(slab);
    const unsigned class_index = slab_state::class_of(state);
    if (!slab_state::is_loaded(state) || class_index == wanted.class_index || !can_morph(class_index) ||
        table_.type(slab) != 0 || node_of(slab) != wanted.arena % extents_.nodes()) {
        return false;
    }
    slab_twin& twin = table_.twin(slab);
    // The countdown of a slab that is listed or rests is about the number of its live blocks.
    const std::int32_t left = twin.countdown.load(std::memory_order_relaxed);
    if ((!twin.listed() && !twin.rests()) || left <= 0 ||
        static_cast<std::uint32_t>(left) * 100 >
            size_classes[class_index].block_count * limit.value_or(covered_of_idle)) {
        return false;
    }
    bin& owner = *twin.owner.load(std::memory_order_acquire);
    {
        const base::scoped_lock lock(owner.mutex);
        if (table_.state(slab) != state || twin.owner.load(std::memory_order_acquire) != &owner ||
            (!twin.listed() && !twin.rests()) || twin.parts_out != 0 || twin.is_empty || uncover(slab).live != 0) {
            return false;
        }
        const unsigned covered_at_most = limit.value_or(
            wanted_.load(std::memory_order_relaxed) - owner.last_use >= idle_after ? covered_of_idle : covered_of_busy);
        const unsigned from = kind_in(slab);
        const unsigned to = wanted.class_index | ((from & slab_state::upper_bank) ^ slab_state::upper_bank);
        const bits_of_half taken = taken_bits(table_, slab, from);
        const bits_of_half covered = behind(taken, from, to);
        if (count(covered) * 100 > size_classes[wanted.class_index].block_count * covered_at_most) {
            return false;
        }
        if (!twin.rests()) {
            unlink(owner, slab);
        } else if (!wake(owner, slab)) {  // a new block must not lie in a hole; nothing was changed yet
            return false;
        }
        if (traced_) {
            write_old_bits(slab, from, taken.all);
        }
        cover(table_, slab, to, covered);
        become(wanted, slab, from, to);
    }
    look_at(slab, 1);
    return true;
}

/// Completes a morph. The slab must be in no list, and its covered blocks marked.
void slab_pool::become(bin& wanted, granule slab, unsigned from, unsigned to) noexcept {
    if (log_ != nullptr) {
        log_->slab_morphed(slab, from, to);
    } else {
        lane::switch_slab_header(space_, base::offset_of(slab).value, slab_word(to), slab_word(from),
                                 [](std::uint64_t& word, std::uint64_t value) {
                                     std::atomic_ref(word).store(value, std::memory_order_release);
                                 });
    }
    table_.set_second(slab, second_life::make(to, slab_state::class_of_kind(from)));
    table_.set_state(slab, slab_state::loaded(to));
    adopt(wanted, slab);  // from here on the new owner may use it without the old owner's lock
}

}  // namespace holdfast::slab
