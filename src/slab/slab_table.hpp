// The tables in DRAM about each slab: a state byte for each granule, the type number, the marks of its blocks, and a
// volatile twin of the slab.
//
// All tables are flat and sparse, indexed by granule: from an address to its slab is a shift and a load. Every free
// reads the place of a slab's marks, and hardly anything writes it, so it has a cache line of its own. State bytes have
// a table of their own.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "base/sparse_table.hpp"
#include "base/units.hpp"
#include "segment/space.hpp"
#include "slab/live_marks.hpp"
#include "slab/remote_frees.hpp"
#include "slab/size_classes.hpp"

namespace holdfast::slab {

/// The state of a granule in the slab layer: what is known of a slab, and its class.
///
/// The marks of a slab's blocks, and their bits on media, lie in one of two banks: in the lower one, unless the slab
/// was morphed (morphing.hpp). Class and bank together are a kind: bits 0..5 the class, bit 6 the bank.
namespace slab_state {
inline constexpr std::uint8_t none = 0;            ///< no slab
inline constexpr std::uint8_t quarantined = 1;     ///< breaks an invariant: left alone, never allocated from
inline constexpr std::uint8_t first_unloaded = 2;  ///< + class: found at open; its bitmap was not read yet
inline constexpr std::uint8_t first_watched =
    0x40;                                           ///< + class, lower bank: loaded; its bitmap says what its marks say
inline constexpr std::uint8_t first_loaded = 0x80;  ///< + kind: loaded; blocks are freed by their marks alone
inline constexpr std::uint8_t class_bits = 0x3f;
inline constexpr std::uint8_t kind_bits = 0x7f;
inline constexpr unsigned upper_bank = 0x40;  ///< of a kind
inline constexpr std::size_t kinds = kind_bits + 1;
static_assert(first_unloaded + class_count <= first_watched);

[[nodiscard]] constexpr std::uint8_t loaded(unsigned kind) noexcept {
    return static_cast<std::uint8_t>(first_loaded + kind);
}
[[nodiscard]] constexpr std::uint8_t watched(unsigned class_index) noexcept {
    return static_cast<std::uint8_t>(first_watched + class_index);
}
[[nodiscard]] constexpr std::uint8_t unloaded(unsigned class_index) noexcept {
    return static_cast<std::uint8_t>(first_unloaded + class_index);
}
/// Whether blocks of a slab in this state are freed by their marks alone.
[[nodiscard]] constexpr bool is_unwatched(std::uint8_t state) noexcept { return state >= first_loaded; }
[[nodiscard]] constexpr bool is_loaded(std::uint8_t state) noexcept { return state >= first_watched; }
[[nodiscard]] constexpr bool is_unloaded(std::uint8_t state) noexcept {
    return state >= first_unloaded && state < first_watched;
}
/// The class of a slab that is not quarantined; no_class where there is none.
[[nodiscard]] constexpr unsigned class_of(std::uint8_t state) noexcept {
    return state < first_unloaded ? no_class : state < first_watched ? state - first_unloaded : state & class_bits;
}
/// The kind of a loaded slab.
[[nodiscard]] constexpr unsigned kind_of(std::uint8_t state) noexcept {
    return is_unwatched(state) ? state & kind_bits : state & class_bits;
}
[[nodiscard]] constexpr unsigned class_of_kind(unsigned kind) noexcept { return kind & class_bits; }
/// Words of a slab's bitmap on media that lie before those of the kind.
[[nodiscard]] constexpr std::size_t first_word_of(unsigned kind) noexcept {
    return (kind & upper_bank) != 0 ? bitmap_words / 2 : 0;
}
}  // namespace slab_state

/// The earlier class of a morphed slab, in DRAM beside its state.
namespace second_life {
inline constexpr std::uint8_t old_bits = 0x3f;  ///< class of older blocks that may still be live, + 1; 0: none
inline constexpr std::uint8_t upper = 0x40;     ///< the blocks that are allocated now are in the upper bank
inline constexpr std::uint8_t morphed = 0x80;   ///< both halves of the bitmap on media may have bits

[[nodiscard]] constexpr bool has_old(std::uint8_t second) noexcept { return (second & old_bits) != 0; }
/// The kind of the older blocks; only where has_old().
[[nodiscard]] constexpr unsigned old_kind(std::uint8_t second) noexcept {
    return ((second & old_bits) - 1U) | ((second & upper) != 0 ? 0 : slab_state::upper_bank);
}
[[nodiscard]] constexpr std::uint8_t make(unsigned kind, unsigned old_class) noexcept {
    return static_cast<std::uint8_t>(morphed | ((kind & slab_state::upper_bank) != 0 ? upper : 0) |
                                     (old_class == no_class ? 0 : old_class + 1));
}
}  // namespace second_life

/// Whether slabs of the class may be morphed, and other slabs into slabs of this class.
[[nodiscard]] constexpr bool can_morph(unsigned class_index) noexcept {
    return size_classes[class_index].block_size >= segment::least_morphed_block;
}

/// The kinds of the blocks in a slab: the present kind, then that of older blocks where there may be some.
struct slab_kinds {
    std::array<unsigned, 2> kinds{};
    unsigned count = 0;

    [[nodiscard]] const unsigned* begin() const noexcept { return kinds.data(); }
    [[nodiscard]] const unsigned* end() const noexcept { return kinds.data() + count; }
};

struct slab_bin;

/// The number of parts of a slab. A thread takes at least one part to allocate from it alone: a half or a quarter of
/// the slab, or all of it where a quarter would be few blocks. Sizes about 512 bytes are one part, because four classes
/// share the demand of each doubling; of larger sizes programs have fewer blocks.
///
/// Part k holds the blocks [k * count / parts, (k + 1) * count / parts).
inline constexpr unsigned most_parts = 4;
[[nodiscard]] constexpr unsigned parts_of(const size_class& kind) noexcept {
    return kind.block_size <= 192 || kind.block_size > 1024 ? most_parts
           : kind.block_size < 256 || kind.block_size > 512 ? 2
                                                            : 1;
}
[[nodiscard]] constexpr std::uint32_t first_of_part(const size_class& kind, unsigned part) noexcept {
    switch (parts_of(kind)) {  // no division
        case 1: return part * std::uint32_t{kind.block_count};
        case 2: return part * std::uint32_t{kind.block_count} / 2;
        default: return part * std::uint32_t{kind.block_count} / most_parts;
    }
}

/// Blocks of a slab, from `first` to before `end`.
struct block_range {
    std::uint32_t first = 0;
    std::uint32_t end = 0;

    /// The bits of a word that stand for some of them.
    [[nodiscard]] constexpr std::uint64_t bits(std::size_t word) const noexcept {
        const auto below = [word](std::uint32_t block) {  // bits of the word that stand for blocks before that one
            return block >= (word + 1) * marks_a_word ? ~std::uint64_t{0}
                   : block <= word * marks_a_word     ? 0
                                                      : (std::uint64_t{1} << (block % marks_a_word)) - 1;
        };
        return below(end) & ~below(first);
    }
    /// The first word that has bits of the range, and the word behind the last.
    [[nodiscard]] constexpr std::size_t first_word() const noexcept { return first / marks_a_word; }
    [[nodiscard]] constexpr std::size_t end_word() const noexcept { return (end + marks_a_word - 1) / marks_a_word; }
};
/// The blocks of `parts` parts from part `first` on.
[[nodiscard]] constexpr block_range blocks_of_parts(const size_class& kind, unsigned first, unsigned parts) noexcept {
    return {first_of_part(kind, first), first_of_part(kind, first + parts)};
}

/// The volatile state of a loaded slab. The lock of the owner guards all fields except `countdown`; the owner itself
/// never moves. A thread that has freed the last block may find the twin in use for another slab.
struct alignas(base::cache_line_size) slab_twin {
    /// Frees until the slab should be looked at, because it may be empty or worth listing again. A free decrements it
    /// by a load and a store, so some decrements may be lost when two threads free at once. It decides when to look,
    /// never what is found.
    std::atomic<std::int32_t> countdown;
    std::uint32_t next;      ///< in a list of the owner: granule + 1, 0 at the end
    std::uint32_t previous;  ///< toward the head: granule + 1, 0 at the head
    std::atomic<slab_bin*> owner;
    std::atomic<bool> in_list;  ///< in one of its owner's two lists of slabs to allocate from
    bool is_empty;              ///< in the list of slabs without a block out
    std::atomic<bool> resting;  ///< in its owner's list of slabs that rest (resting.hpp)
    std::uint8_t parts_out;     ///< bit k: a thread allocates from part k
    std::uint8_t first_word;    ///< of marks: where the next search for a single block begins
    /// Of a morphed slab, at the last look: older blocks that were not free, and new blocks that overlap them.
    std::uint16_t old_taken;
    std::uint16_t old_covered;
    static constexpr std::uint16_t not_looked_at = 0xffff;
    /// Of a slab that rests, a bit for each page: `empty_pages` had no live block at the last look, and get none while
    /// it rests; `hole_pages` are those of them that a commit has made holes.
    std::uint16_t empty_pages;
    std::uint16_t hole_pages;

    [[nodiscard]] bool listed() const noexcept { return in_list.load(std::memory_order_relaxed); }
    void set_listed(bool listed) noexcept { in_list.store(listed, std::memory_order_relaxed); }
    /// Counts a block that became free; true where the slab should be looked at now. On x86 the load and the store are
    /// one instruction without a lock prefix; of two at once one may still be lost.
    [[nodiscard]] bool count_in() noexcept {
#if defined(__x86_64__)
        bool due = false;
        asm("subl $1, %0" : "+m"(reinterpret_cast<std::int32_t&>(countdown)), "=@ccle"(due));
        return due;
#else
        const std::int32_t left = countdown.load(std::memory_order_relaxed) - 1;
        countdown.store(left, std::memory_order_relaxed);
        return left <= 0;
#endif
    }
    [[nodiscard]] bool rests() const noexcept { return resting.load(std::memory_order_relaxed); }
    void set_resting(bool rests) noexcept { resting.store(rests, std::memory_order_relaxed); }
    /// Counts blocks that are now handed out.
    void count_out(std::uint32_t blocks) noexcept {
        countdown.store(countdown.load(std::memory_order_relaxed) + static_cast<std::int32_t>(blocks),
                        std::memory_order_relaxed);
    }
};
static_assert(sizeof(slab_twin) == base::cache_line_size);

/// Finds the blocks of a slab that are freed by their marks alone. Every free reads it and hardly anything writes it,
/// so it is not in the line of the twin, which every free writes.
struct alignas(base::cache_line_size) plain_slab {
    /// The lower half is the reciprocal of the blocks' class, or 0 where no block is freed by its mark alone. The upper
    /// half counts changes: a reader that finds the same version before and after it reads `marks` knows that the two
    /// fit together.
    std::uint64_t version;
    std::uint8_t* marks;  ///< of the slab's first block
};

/// What a free reads and writes of a slab besides the mark, side by side, so that one address leads to both.
struct slab_record {
    plain_slab plain;
    slab_twin twin;
};
static_assert(sizeof(slab_record) == 2 * base::cache_line_size);

/// Thread safety: states, marks and live bitmaps are atomic; slab_twin says what guards twins.
class slab_table {
public:
    [[nodiscard]] base::result<void> reset(const segment::space_view& space) {
        plain_granules_ = granules_ = space.reservation() / base::granule_size;
        shadows_ = nullptr;
        HF_TRY_ASSIGN(states_, base::sparse_table<std::uint8_t>::create(granules_, "states of slabs"));
        HF_TRY_ASSIGN(types_, base::sparse_table<std::uint32_t>::create(granules_, "types of slabs"));
        HF_TRY_ASSIGN(records_, base::sparse_table<slab_record>::create(granules_, "twins of slabs"));
        HF_TRY_ASSIGN(seconds_, base::sparse_table<std::uint8_t>::create(granules_, "earlier classes of slabs"));
        for (unsigned bank = 0; bank < banks; ++bank) {
            for (unsigned shift = least_mark_shift; shift <= most_mark_shift; ++shift) {
                HF_TRY_ASSIGN(marks_[bank][shift - least_mark_shift],
                              base::sparse_table<std::uint8_t>::create(granules_ << shift, "live marks of blocks"));
            }
            for (unsigned i = 0; i < class_count; ++i) {
                kinds_[bank * slab_state::upper_bank + i] = {&marks_[bank][mark_shifts[i] - least_mark_shift][0],
                                                             size_classes[i].reciprocal, 1U << mark_shifts[i]};
            }
        }
        live_ = reinterpret_cast<std::byte*>(space.live_bitmap({0}));
        live_stride_ = static_cast<std::uint64_t>(space.metadata_of(1) - space.metadata_of(0));
        granule_mask_ = space.shape().granules() - 1;
        segment_shift_ = static_cast<unsigned>(std::countr_zero(space.shape().granules()));
        return {};
    }

    /// The marks of a slab. Classes with about as many blocks share a table in which each slab has room for these, so
    /// marks take little more memory than there are blocks. All marks are `free` when a slab is made and when it is
    /// released; marks beyond its blocks always are.
    [[nodiscard]] std::uint8_t* marks(base::granule of, unsigned kind) const noexcept {
        const mark_kind& found = kinds_[kind];
        return found.marks + of.value * found.stride;
    }
    /// The mark of the block of that kind that contains the offset, in a loaded slab, and whether the block begins
    /// there. The bytes behind the last block have a mark too, which is never `live`.
    struct found_mark {
        std::uint8_t* mark;
        bool is_start;
    };
    [[nodiscard]] found_mark find_mark(std::uint64_t offset, std::size_t kind) const noexcept {
        const mark_kind& found = kinds_[kind];
        const block_position at(offset % base::granule_size, found.reciprocal);
        return {found.marks + offset / base::granule_size * found.stride + at.index(), at.is_start()};
    }
    /// The mark of the block that begins at the offset; null where none does.
    [[nodiscard]] std::uint8_t* mark_at(std::uint64_t offset, unsigned kind) const noexcept {
        const found_mark found = find_mark(offset, kind);
        return found.is_start ? found.mark : nullptr;
    }
    /// The mark of a live block that begins at the offset and is older than the slab's present class; else null.
    [[nodiscard]] std::uint8_t* old_mark_at(std::uint64_t offset) const noexcept {
        const std::uint8_t second = this->second(base::granule_of(base::heap_offset{offset}));
        if (!second_life::has_old(second)) {
            return nullptr;
        }
        std::uint8_t* const mark = mark_at(offset, second_life::old_kind(second));
        return mark != nullptr && std::atomic_ref(*mark).load(std::memory_order_acquire) == live_mark::live ? mark
                                                                                                            : nullptr;
    }

    /// Makes marks from the bitmap of a slab of that kind, while it is loaded. The bitmap must have no bit that stands
    /// for no block. Returns the number of live blocks.
    std::uint32_t load_marks(base::granule of, unsigned kind) const noexcept {
        std::uint32_t live_blocks = 0;
        std::uint8_t* const first = marks(of, kind);
        for (std::size_t word = 0; word < words_of_kind(kind); ++word) {
            const std::uint64_t live =
                live_word(of, slab_state::first_word_of(kind) + word).load(std::memory_order_acquire);
            live_blocks += count_bits(live);
            for (std::size_t bit = 0; live != 0 && bit < marks_a_word; ++bit) {
                first[word * marks_a_word + bit] = (live >> bit & 1) != 0 ? live_mark::live : live_mark::free;
            }
        }
        return live_blocks;
    }
    /// How many blocks of a loaded slab may not be handed out.
    [[nodiscard]] std::uint32_t count_marked(base::granule of, unsigned kind) const noexcept {
        const std::size_t words = words_of_kind(kind);
        return static_cast<std::uint32_t>(words * marks_a_word) - count_free(marks(of, kind), words);
    }
    /// The blocks of a word of a loaded slab's marks that may be handed out, as bits.
    [[nodiscard]] std::uint64_t free_bits(base::granule of, unsigned kind, std::size_t word) const noexcept {
        return free_bits_of(marks(of, kind) + word * marks_a_word) &
               valid_bits(size_classes[slab_state::class_of_kind(kind)], word);
    }
    /// Writes the bitmap on media of a loaded slab of that kind from its marks. Words that are right already are not
    /// written.
    void write_bitmap(base::granule of, unsigned kind) const noexcept {
        const std::size_t end = second(of) == 0 ? words_of_kind(kind) : bitmap_words;
        for (std::size_t word = 0; word < end; ++word) {
            const std::uint64_t live = live_bits(of, word);
            if (live_word(of, word).load(std::memory_order_relaxed) != live) {
                live_word(of, word).store(live, std::memory_order_relaxed);
            }
        }
    }
    /// Makes the bitmap on media say that no block is live.
    void clear_bitmap(base::granule of) const noexcept {
        for (std::size_t word = 0; word < bitmap_words; ++word) {
            if (live_word(of, word).load(std::memory_order_relaxed) != 0) {
                live_word(of, word).store(0, std::memory_order_relaxed);
            }
        }
    }

    /// The values that the line of bitmap words at this address must have now. The thread that recorded a change of the
    /// line saw its slab loaded; a slab that is gone since then has no live block.
    void bits_of_line(const std::uint64_t* line, std::span<std::uint64_t, 8> bits) const noexcept {
        const auto at = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(line) - live_);
        const base::granule of{(at / live_stride_ << segment_shift_) + at % live_stride_ / segment::bitmap_size};
        const std::uint64_t first = at % live_stride_ % segment::bitmap_size / sizeof(std::uint64_t);
        for (std::size_t i = 0; i < bits.size(); ++i) {
            bits[i] = live_bits(of, first + i);
        }
    }
    /// The value that a word of a slab's bitmap on media must have: from the marks where the slab is loaded, else the
    /// word itself.
    [[nodiscard]] std::uint64_t live_bits(base::granule of, std::size_t word) const noexcept {
        for (;;) {
            const std::uint8_t now = state(of);
            if (!slab_state::is_loaded(now)) {
                return now == slab_state::none ? 0 : live_word(of, word).load(std::memory_order_acquire);
            }
            const std::uint8_t before = second(of);
            unsigned kind = slab_state::kind_of(now);
            if (before != 0 && slab_state::first_word_of(kind) != word / (bitmap_words / 2) * (bitmap_words / 2)) {
                kind = second_life::has_old(before) ? second_life::old_kind(before) : unsigned{slab_state::kinds};
            }
            const std::uint64_t live = kind == slab_state::kinds ? 0 : live_bits_of_kind(of, kind, word);
            if (before == 0 || state(of) == now) {
                return live;  // else: it was morphed between the loads
            }
        }
    }
    /// The kinds of a slab in that state, loaded or not; none where there is no slab or it is quarantined.
    [[nodiscard]] slab_kinds kinds_in(base::granule of, std::uint8_t state) const noexcept {
        const unsigned class_index = slab_state::class_of(state);
        if (class_index == no_class) {
            return {};
        }
        const std::uint8_t second = this->second(of);
        const bool upper = slab_state::is_loaded(state) ? (slab_state::kind_of(state) & slab_state::upper_bank) != 0
                                                        : (second & second_life::upper) != 0;
        const unsigned present = class_index | (upper ? slab_state::upper_bank : 0);
        return second_life::has_old(second) ? slab_kinds{{present, second_life::old_kind(second)}, 2}
                                            : slab_kinds{{present, 0}, 1};
    }

    /// Granules of the reservation.
    [[nodiscard]] std::uint64_t granules() const noexcept { return granules_; }
    /// The number of granules, from 0 on, in which the mark alone says whether a block is live: all, or none where
    /// there are shadows.
    [[nodiscard]] std::uint64_t plain_granules() const noexcept { return plain_granules_; }
    /// From now on a block may be free though its mark says that it is live.
    void set_shadows(const remote_frees* shadows) noexcept {
        shadows_ = shadows;
        refuse_plain_frees();
    }
    /// From now on no block is freed by its mark alone. Only while one thread uses the heap.
    void refuse_plain_frees() noexcept { plain_granules_ = 0; }
    /// From now on no block is found by the record of its slab. No other thread may use the slabs any more.
    void forget_records() noexcept { records_.discard(); }

    [[nodiscard]] std::uint8_t state(base::granule of) const noexcept {
        return std::atomic_ref<std::uint8_t>(states_[of.value]).load(std::memory_order_acquire);
    }
    /// One thread at a time may call it for a granule; for a slab with live blocks, with the lock of its owner. A free
    /// that comes between the two stores of the version takes the rare path, which waits for that lock.
    void set_state(base::granule of, std::uint8_t state) const noexcept {
        const std::atomic_ref<std::uint8_t> now(states_[of.value]);
        plain_slab& plain = records_[of.value].plain;
        const std::atomic_ref version(plain.version);
        if (slab_state::is_unwatched(now.load(std::memory_order_relaxed))) {  // an open touches no record of a slab
            version.store(next_version(version.load(std::memory_order_relaxed)), std::memory_order_relaxed);
        }
        now.store(state, std::memory_order_release);
        if (slab_state::is_unwatched(state)) {
            const unsigned kind = slab_state::kind_of(state);
            std::atomic_ref(plain.marks).store(marks(of, kind), std::memory_order_release);
            version.store(next_version(version.load(std::memory_order_relaxed)) | kinds_[kind].reciprocal,
                          std::memory_order_release);
        }
    }
    /// The kind of a loaded slab.
    [[nodiscard]] unsigned kind_in(base::granule of) const noexcept { return slab_state::kind_of(state(of)); }
    /// From now on blocks of the loaded slab are allocated and freed by their marks alone. With the lock of its owner.
    void unwatch(base::granule of) const noexcept {
        const std::uint8_t now = state(of);
        if (!slab_state::is_unwatched(now)) {
            set_state(of, slab_state::loaded(slab_state::kind_of(now)));
        }
    }
    /// Changes the mark of a block that starts at the offset from `from` to `to`, where its slab is loaded and the mark
    /// is `from`.
    void replace_mark(std::uint64_t offset, std::uint8_t from, std::uint8_t to) const noexcept {
        const base::granule slab = base::granule_of(base::heap_offset{offset});
        if (slab.value >= granules_ || !slab_state::is_loaded(state(slab))) {
            return;
        }
        for (const unsigned kind : kinds_in(slab, state(slab))) {
            if (std::uint8_t* const mark = mark_at(offset, kind)) {
                std::uint8_t expected = from;
                std::atomic_ref(*mark).compare_exchange_strong(expected, to, std::memory_order_acq_rel);
            }
        }
    }
    [[nodiscard]] slab_record& record(base::granule of) const noexcept { return records_[of.value]; }
    /// Finds a mark as find_mark() does, in a slab whose blocks are freed by their marks alone. In any other slab no
    /// block begins.
    [[nodiscard]] static found_mark find_plain_mark(plain_slab& plain, std::uint64_t offset) noexcept {
        const std::uint64_t version = std::atomic_ref(plain.version).load(std::memory_order_acquire);
        std::uint8_t* const first = std::atomic_ref(plain.marks).load(std::memory_order_acquire);
        const block_position at(offset % base::granule_size, static_cast<std::uint32_t>(version));
        bool is_start = false;
        if (holds(plain.version, version)) [[likely]] {
            is_start = at.is_start();
        }
        return {first + at.index(), is_start};
    }
    /// The second_life byte: constant until the slab is morphed, and 0 where it was not morphed since it was made.
    [[nodiscard]] std::uint8_t second(base::granule of) const noexcept {
        return std::atomic_ref<std::uint8_t>(seconds_[of.value]).load(std::memory_order_acquire);
    }
    /// Comes before the state.
    void set_second(base::granule of, std::uint8_t second) const noexcept {
        if (this->second(of) != second) {
            std::atomic_ref<std::uint8_t>(seconds_[of.value]).store(second, std::memory_order_release);
        }
    }
    /// The type number of a slab, 0 for none. It does not change while a block is out.
    [[nodiscard]] std::uint32_t type(base::granule of) const noexcept {
        return std::atomic_ref<std::uint32_t>(types_[of.value]).load(std::memory_order_relaxed);
    }
    /// Comes before the state.
    void set_type(base::granule of, std::uint32_t type) const noexcept {
        if (this->type(of) != type) {
            std::atomic_ref<std::uint32_t>(types_[of.value]).store(type, std::memory_order_relaxed);
        }
    }
    [[nodiscard]] slab_twin& twin(base::granule of) const noexcept { return records_[of.value].twin; }
    /// The live bitmap on media: a bit is set iff the user holds the block; for a loaded slab this holds after a commit
    /// or a checkpoint.
    [[nodiscard]] std::uint64_t* live_address(base::granule of) const noexcept {
        return reinterpret_cast<std::uint64_t*>(live_ + (of.value >> segment_shift_) * live_stride_ +
                                                (of.value & granule_mask_) * segment::bitmap_size);
    }
    [[nodiscard]] std::atomic_ref<std::uint64_t> live_word(base::granule of, std::size_t word) const noexcept {
        return std::atomic_ref<std::uint64_t>(live_address(of)[word]);
    }

    /// How many words of marks a slab of the kind has.
    [[nodiscard]] static constexpr std::size_t words_of_kind(unsigned kind) noexcept {
        return words_of(size_classes[slab_state::class_of_kind(kind)]);
    }
    /// The memory of the tables about these slabs, for instruments: calls `each` with a name, the first and the end
    /// address.
    template <class Each>
    void for_each_range(base::granule first, base::granule end, Each each) const {
        each("states", &states_[first.value], &states_[end.value - 1] + 1);
        each("types", &types_[first.value], &types_[end.value - 1] + 1);
        each("twins", &records_[first.value], &records_[end.value - 1] + 1);
        for (const auto& bank : marks_) {
            for (unsigned i = 0; i < bank.size(); ++i) {
                each("marks", &bank[i][first.value << (i + least_mark_shift)],
                     &bank[i][(end.value << (i + least_mark_shift)) - 1] + 1);
            }
        }
    }

private:
    /// The version after another change, without a reciprocal.
    [[nodiscard]] static constexpr std::uint64_t next_version(std::uint64_t version) noexcept {
        return (version | ~std::uint32_t{0}) + 1;
    }
    /// A word of the bitmap on media, made from the marks of blocks of a kind; 0 where the word is not of that kind.
    [[nodiscard]] std::uint64_t live_bits_of_kind(base::granule of, unsigned kind, std::size_t word) const noexcept {
        const std::size_t index = word - slab_state::first_word_of(kind);
        if (index >= words_of_kind(kind)) {
            return 0;
        }
        const std::uint64_t gone = shadows_ == nullptr ? 0 : shadows_->freed_bits(of, kind, index);
        return live_bits_of(marks(of, kind) + index * marks_a_word) & ~gone;
    }

    static constexpr unsigned banks = 2;
    static constexpr unsigned least_mark_shift = 6;  ///< 64 marks, a word of bits
    static constexpr unsigned most_mark_shift = 13;  ///< 8,192 blocks of 8 bytes
    /// By class: the binary logarithm of the number of marks for which a slab has room. The rest of the slab behind the
    /// last block has a mark, too.
    static constexpr std::array<std::uint8_t, class_count> mark_shifts = [] {
        std::array<std::uint8_t, class_count> shifts{};
        for (unsigned i = 0; i < class_count; ++i) {
            const auto bits = static_cast<unsigned>(
                std::bit_width((base::granule_size + size_classes[i].block_size - 1) / size_classes[i].block_size - 1));
            shifts[i] = static_cast<std::uint8_t>(bits < least_mark_shift ? least_mark_shift : bits);
        }
        return shifts;
    }();
    static_assert(std::ranges::max(mark_shifts) == most_mark_shift);

    /// What finds the mark of a block.
    struct mark_kind {
        std::uint8_t* marks;
        std::uint32_t reciprocal;
        std::uint32_t stride;  ///< marks of a slab; a product is faster than a shift by a loaded number
    };

    std::array<mark_kind, slab_state::kinds> kinds_{};
    std::byte* live_ = nullptr;
    std::uint64_t live_stride_ = 0;
    std::uint64_t granule_mask_ = 0;
    std::uint64_t granules_ = 0;
    std::uint64_t plain_granules_ = 0;
    const remote_frees* shadows_ = nullptr;  ///< null where the heap has one node
    unsigned segment_shift_ = 0;
    base::sparse_table<std::uint8_t> states_;
    base::sparse_table<std::uint32_t> types_;
    base::sparse_table<slab_record> records_;
    base::sparse_table<std::uint8_t> seconds_;
    std::array<std::array<base::sparse_table<std::uint8_t>, most_mark_shift - least_mark_shift + 1>, banks> marks_;
};

}  // namespace holdfast::slab
