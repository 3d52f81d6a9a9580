// What DRAM knows of each slab: a state byte a granule, the type number where it has one, and a volatile twin beside
// the slab's header and bitmap on media.
//
// All tables are flat and sparse, indexed by granule: from an address to its slab is a shift and a load. The
// state byte is what the path of every free reads and hardly anyone writes, so it has a table of its own.
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
#include "slab/size_classes.hpp"

namespace holdfast::slab {

/// What a granule is to the slab layer.
namespace slab_state {
inline constexpr std::uint8_t none = 0;             ///< no slab
inline constexpr std::uint8_t first_loaded = 1;     ///< + class: a slab whose twin is valid
inline constexpr std::uint8_t first_unloaded = 64;  ///< + class: a slab found at open whose bitmap nobody has read yet
/// The same for slabs with a type number, which stands in slab_table::type(). They have states of their own, so that
/// the path of all other blocks need not ask.
inline constexpr std::uint8_t first_typed_loaded = 128;
inline constexpr std::uint8_t first_typed_unloaded = 192;
inline constexpr std::uint8_t quarantined = 255;  ///< a slab that breaks an invariant: left alone, never allocated from

[[nodiscard]] constexpr std::uint8_t loaded(unsigned class_index, bool typed = false) noexcept {
    return static_cast<std::uint8_t>((typed ? first_typed_loaded : first_loaded) + class_index);
}
[[nodiscard]] constexpr std::uint8_t unloaded(unsigned class_index, bool typed = false) noexcept {
    return static_cast<std::uint8_t>((typed ? first_typed_unloaded : first_unloaded) + class_index);
}
/// The class of a loaded slab without a type; no_class or above for anything else.
[[nodiscard]] constexpr unsigned class_if_loaded(std::uint8_t state) noexcept { return state - unsigned{first_loaded}; }
[[nodiscard]] constexpr bool is_typed(std::uint8_t state) noexcept {
    return state >= first_typed_loaded && state != quarantined;
}
[[nodiscard]] constexpr bool is_loaded(std::uint8_t state) noexcept {
    return class_if_loaded(state) < class_count || state - unsigned{first_typed_loaded} < class_count;
}
[[nodiscard]] constexpr bool is_unloaded(std::uint8_t state) noexcept {
    return state - unsigned{first_unloaded} < class_count || state - unsigned{first_typed_unloaded} < class_count;
}
/// The class of a slab that is not quarantined; no_class where there is none.
[[nodiscard]] constexpr unsigned class_of(std::uint8_t state) noexcept {
    for (const unsigned first : {first_loaded, first_unloaded, first_typed_loaded, first_typed_unloaded}) {
        if (state - first < class_count) {
            return state - first;
        }
    }
    return no_class;
}
}  // namespace slab_state
static_assert(slab_state::first_loaded + class_count <= slab_state::first_unloaded &&
              slab_state::first_unloaded + class_count <= slab_state::first_typed_loaded &&
              slab_state::first_typed_loaded + class_count <= slab_state::first_typed_unloaded &&
              slab_state::first_typed_unloaded + class_count <= slab_state::quarantined);

/// Bitmaps of up to so many words (blocks of 48 bytes and more) fit in the twin itself.
inline constexpr std::size_t twin_words = 22;

/// Valid while the slab is loaded. Guarded by the lock of the bin (class and arena) that owns the slab; `arena` is
/// fixed while a block is out.
struct alignas(base::cache_line_size) slab_twin {
    std::uint32_t next;        ///< in the owner's list of slabs with free blocks: granule + 1, 0 at the end
    std::uint32_t previous;    ///< the same, toward the head
    std::uint16_t free_count;  ///< blocks neither live nor in a thread's cache
    std::uint8_t first_word;   ///< no free block in the words of `taken` before this one
    std::uint8_t arena;        ///< the owner
    std::uint8_t listed;       ///< 1: in the owner's list
    std::array<std::uint64_t, twin_words> taken;  ///< bit set: the block is out: live, or in a thread's cache
};
static_assert(sizeof(slab_twin) == 192);

/// What a live mark says of a block (durability `atomic`, see slab_table::use_marks()).
namespace live_mark {
inline constexpr std::uint8_t free = 0;
inline constexpr std::uint8_t live = 1;
inline constexpr std::uint8_t freeing = 2;  ///< live still: somebody's durable record of the free is on its way
}  // namespace live_mark

/// 64 marks as 64 bits: set where the mark is not `free`.
[[nodiscard]] inline std::uint64_t pack_marks(const std::uint8_t* marks) noexcept {
    std::uint64_t bits = 0;
    for (unsigned i = 0; i < 8; ++i) {
        std::uint64_t eight = std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(
                                                                 const_cast<std::uint8_t*>(marks) + std::size_t{8} * i))
                                  .load(std::memory_order_acquire);
        eight = (eight | eight >> 1U) & 0x0101010101010101;
        bits |= (eight * 0x0102040810204080 >> 56U) << (8 * i);  // the lowest bits of 8 bytes, gathered by a product
    }
    return bits;
}

/// Thread safety: states, marks and live bitmaps are atomic; twins are guarded as they say.
class slab_table {
public:
    [[nodiscard]] base::result<void> reset(const segment::space_view& space) {
        granules_ = space.reservation() / base::granule_size;
        HF_TRY_ASSIGN(states_, base::sparse_table<std::uint8_t>::create(granules_, "states of slabs"));
        HF_TRY_ASSIGN(types_, base::sparse_table<std::uint32_t>::create(granules_, "types of slabs"));
        HF_TRY_ASSIGN(twins_, base::sparse_table<slab_twin>::create(granules_, "twins of slabs"));
        HF_TRY_ASSIGN(large_, base::sparse_table<large_bitmap>::create(granules_, "bitmaps of slabs"));
        live_ = reinterpret_cast<std::byte*>(space.live_bitmap({0}));
        live_stride_ = static_cast<std::uint64_t>(space.metadata_of(1) - space.metadata_of(0));
        granule_mask_ = space.shape().granules() - 1;
        segment_shift_ = static_cast<unsigned>(std::countr_zero(space.shape().granules()));
        return {};
    }

    /// From now on the truth about the blocks of loaded slabs is a byte in DRAM for each, which its holder writes with
    /// a plain store; the bitmaps on media follow when a checkpoint asks (bits_of_line()). A locked instruction would
    /// wait for the fence of the record before it, and all that follows with it.
    ///
    /// Slabs with about as many blocks have a table of their own, in which each slab has room for these: so marks take
    /// little more memory than there are blocks. A slab's marks are all `free` when it comes and when it goes.
    [[nodiscard]] base::result<void> use_marks() {
        for (unsigned shift = least_mark_shift; shift <= most_mark_shift; ++shift) {
            HF_TRY_ASSIGN(marks_[shift - least_mark_shift],
                          base::sparse_table<std::uint8_t>::create(granules_ << shift, "live marks of blocks"));
        }
        has_marks_ = true;
        return {};
    }
    [[nodiscard]] bool has_marks() const noexcept { return has_marks_; }
    [[nodiscard]] std::uint8_t* marks(base::granule of, unsigned class_index) const noexcept {
        const unsigned shift = mark_shifts[class_index];
        return &marks_[shift - least_mark_shift][of.value << shift];
    }
    /// A slab of that class is loaded, and no bit is set of a block that it has not: its bitmap becomes marks.
    void load_marks(base::granule of, unsigned class_index) const noexcept {
        for (std::size_t word = 0; word < words_of(size_classes[class_index]); ++word) {
            const std::uint64_t live = live_word(of, word).load(std::memory_order_acquire);
            for (std::size_t bit = 0; live != 0 && bit < 64; ++bit) {
                marks(of, class_index)[word * 64 + bit] = (live >> bit & 1) != 0 ? live_mark::live : live_mark::free;
            }
        }
    }
    /// What the line of bitmap words at this address must hold now. Whoever has recorded a change of it had seen the
    /// slab loaded; one that is gone since has no live block.
    void bits_of_line(const std::uint64_t* line, std::span<std::uint64_t, 8> bits) const noexcept {
        const auto at = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(line) - live_);
        const base::granule of{(at / live_stride_ << segment_shift_) + at % live_stride_ / segment::bitmap_size};
        const std::uint64_t first = at % live_stride_ % segment::bitmap_size / sizeof(std::uint64_t);
        for (std::size_t i = 0; i < bits.size(); ++i) {
            bits[i] = live_bits(of, first + i);
        }
    }
    /// One word of what the user holds of a slab: its marks, where it has them, or its bitmap.
    [[nodiscard]] std::uint64_t live_bits(base::granule of, std::size_t word) const noexcept {
        const std::uint8_t now = state(of);
        if (!has_marks_ || !(slab_state::is_loaded(now) || now == slab_state::none)) {
            return live_word(of, word).load(std::memory_order_acquire);
        }
        const unsigned class_index = slab_state::class_of(now);
        return class_index == no_class || word >= words_of(size_classes[class_index])
                   ? 0
                   : pack_marks(marks(of, class_index) + word * 64);
    }

    /// Granules of the reservation.
    [[nodiscard]] std::uint64_t granules() const noexcept { return granules_; }

    [[nodiscard]] std::uint8_t state(base::granule of) const noexcept {
        return std::atomic_ref<std::uint8_t>(states_[of.value]).load(std::memory_order_acquire);
    }
    void set_state(base::granule of, std::uint8_t state) const noexcept {
        std::atomic_ref<std::uint8_t>(states_[of.value]).store(state, std::memory_order_release);
    }
    /// The type number of a slab whose state says that it has one. It is fixed while a block is out.
    [[nodiscard]] std::uint32_t type(base::granule of) const noexcept {
        return std::atomic_ref<std::uint32_t>(types_[of.value]).load(std::memory_order_relaxed);
    }
    /// Comes before the state.
    void set_type(base::granule of, std::uint32_t type) const noexcept {
        std::atomic_ref<std::uint32_t>(types_[of.value]).store(type, std::memory_order_relaxed);
    }
    /// The same, and 0 for a slab without one.
    [[nodiscard]] std::uint32_t type_in_state(base::granule of, std::uint8_t state) const noexcept {
        return slab_state::is_typed(state) ? type(of) : 0;
    }
    [[nodiscard]] slab_twin& twin(base::granule of) const noexcept { return twins_[of.value]; }
    [[nodiscard]] std::span<std::uint64_t> taken(base::granule of, const size_class& kind) const noexcept {
        const std::size_t words = words_of(kind);
        return {words <= twin_words ? twins_[of.value].taken.data() : large_[of.value].data(), words};
    }
    /// The live bitmap on media: bit set iff the user holds the block.
    [[nodiscard]] std::uint64_t* live_address(base::granule of) const noexcept {
        return reinterpret_cast<std::uint64_t*>(live_ + (of.value >> segment_shift_) * live_stride_ +
                                                (of.value & granule_mask_) * segment::bitmap_size);
    }
    [[nodiscard]] std::atomic_ref<std::uint64_t> live_word(base::granule of, std::size_t word) const noexcept {
        return std::atomic_ref<std::uint64_t>(live_address(of)[word]);
    }

private:
    using large_bitmap = std::array<std::uint64_t, bitmap_words>;
    static constexpr unsigned least_mark_shift = 6;  ///< 64 marks, a word of bits
    static constexpr unsigned most_mark_shift = 13;  ///< 8,192 blocks of 8 bytes
    /// By class: the binary logarithm of the marks that a slab has room for.
    static constexpr std::array<std::uint8_t, class_count> mark_shifts = [] {
        std::array<std::uint8_t, class_count> shifts{};
        for (unsigned i = 0; i < class_count; ++i) {
            const auto bits = static_cast<unsigned>(std::bit_width(size_classes[i].block_count - 1U));
            shifts[i] = static_cast<std::uint8_t>(bits < least_mark_shift ? least_mark_shift : bits);
        }
        return shifts;
    }();
    static_assert(std::ranges::max(mark_shifts) == most_mark_shift);
    static_assert(std::ranges::equal(mark_shifts, size_classes, [](unsigned shift, const size_class& kind) {
        return (std::size_t{1} << shift) >= kind.block_count;
    }));

    std::byte* live_ = nullptr;
    std::uint64_t live_stride_ = 0;
    std::uint64_t granule_mask_ = 0;
    std::uint64_t granules_ = 0;
    unsigned segment_shift_ = 0;
    base::sparse_table<std::uint8_t> states_;
    base::sparse_table<std::uint32_t> types_;
    base::sparse_table<slab_twin> twins_;
    base::sparse_table<large_bitmap> large_;
    std::array<base::sparse_table<std::uint8_t>, most_mark_shift - least_mark_shift + 1> marks_;
    bool has_marks_ = false;
};

}  // namespace holdfast::slab
