// The sizes of small blocks: multiples of 8 up to 64, of 16 up to 256, then four classes a doubling up to 16 KiB. A
// block is aligned to every power of two that divides its size, so requests at an alignment of 16 do without 24, 40
// and 56.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"

namespace holdfast::slab {

struct size_class {
    std::uint32_t reciprocal;
    std::uint16_t block_size;  ///< bytes
    std::uint16_t block_count;
};

inline constexpr std::size_t class_count = 44;
/// The request needs an extent, or is invalid.
inline constexpr unsigned no_class = class_count;
inline constexpr std::uint64_t maximum_small_size = 16384;
inline constexpr std::uint64_t maximum_small_alignment = 16384;
/// 8,192 blocks of 8 bytes.
inline constexpr std::size_t bitmap_words = base::granule_size / 8 / 64;

[[nodiscard]] constexpr std::array<size_class, class_count> make_size_classes() noexcept {
    std::array<size_class, class_count> classes{};
    std::uint64_t size = 8;
    for (size_class& made : classes) {
        made.block_size = static_cast<std::uint16_t>(size);
        made.block_count = static_cast<std::uint16_t>(base::granule_size / size);
        made.reciprocal = static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + size - 1) / size);
        std::uint64_t step = size < 64 ? 8 : 16;
        for (std::uint64_t power = 256; power <= size; power *= 2) {
            step = power / 4;
        }
        size += step;
    }
    return classes;
}

inline constexpr std::array<size_class, class_count> size_classes = make_size_classes();
static_assert(size_classes.front().block_size == 8 && size_classes.back().block_size == maximum_small_size);

/// By size in units: the smallest class that holds it. Where `Multiple` is 16, of 8 bytes or multiples of 16.
template <std::size_t Entries, std::uint64_t Unit, std::uint64_t Multiple>
[[nodiscard]] constexpr std::array<std::uint8_t, Entries> make_class_table() noexcept {
    std::array<std::uint8_t, Entries> table{};
    std::uint8_t found = 0;
    for (std::size_t entry = 0; entry < Entries; ++entry) {
        while (size_classes.at(found).block_size < entry * Unit ||
               (size_classes.at(found).block_size > Multiple && size_classes.at(found).block_size % Multiple != 0)) {
            ++found;
        }
        table.at(entry) = found;
    }
    return table;
}
inline constexpr std::uint64_t fine_limit = 1024;
inline constexpr std::uint64_t coarse_unit = 256;
using fine_table = std::array<std::uint8_t, fine_limit / 8 + 1>;
/// Up to fine_limit, in units of 8 bytes: for alignments up to 8, and as malloc aligns (16 for at least 16 bytes).
inline constexpr std::array<fine_table, 2> fine_classes{make_class_table<fine_limit / 8 + 1, 8, 8>(),
                                                        make_class_table<fine_limit / 8 + 1, 8, 16>()};
inline constexpr const fine_table& fine_classes_of_malloc = fine_classes[1];
inline constexpr auto coarse_classes = make_class_table<maximum_small_size / coarse_unit + 1, coarse_unit, 8>();

/// The smallest class for `bytes` at that alignment; no_class: none, 0 bytes, or an alignment that is no power of two.
[[nodiscard]] constexpr unsigned class_for(std::uint64_t bytes, std::uint64_t alignment) noexcept {
    if (bytes - 1 >= maximum_small_size || alignment - 1 >= maximum_small_alignment ||
        (alignment & (alignment - 1)) != 0) {
        return no_class;
    }
    unsigned found = bytes <= fine_limit ? fine_classes[alignment > 8 ? 1 : 0][(bytes + 7) / 8]
                                         : coarse_classes[(bytes + coarse_unit - 1) / coarse_unit];
    while ((size_classes[found].block_size & (alignment - 1)) != 0) {
        if (++found == class_count) {
            return no_class;
        }
    }
    return found;
}

static_assert(size_classes.back().block_size % base::cache_line_size == 0, "what has a class has one of whole lines");

[[nodiscard]] constexpr unsigned in_whole_lines(unsigned class_index) noexcept {
    while (class_index != no_class && size_classes[class_index].block_size % base::cache_line_size != 0) {
        ++class_index;
    }
    return class_index;
}

[[nodiscard]] constexpr unsigned class_of_block_size(std::uint64_t block_size) noexcept {
    const unsigned found = class_for(block_size, 1);
    return found != no_class && size_classes[found].block_size == block_size ? found : no_class;
}

/// The block that contains a byte; block_count for the unused end.
[[nodiscard]] constexpr std::uint32_t block_index(const size_class& of, std::uint64_t within) noexcept {
    return static_cast<std::uint32_t>((within * of.reciprocal) >> 32);
}

/// One product says in which block a byte of a slab lies, and whether the block begins there: its lower half, the
/// remainder, is then below the reciprocal (D. Lemire, O. Kaser and N. Kurz, "Faster remainder by direct computation",
/// 2019). Exact for all classes (size_classes_test).
class block_position {
public:
    constexpr block_position(std::uint64_t within, std::uint32_t reciprocal) noexcept
        : product_(within * reciprocal), reciprocal_(reciprocal) {}
    [[nodiscard]] constexpr std::uint64_t index() const noexcept { return product_ >> 32U; }
    [[nodiscard]] constexpr bool is_start() const noexcept {
        return static_cast<std::uint32_t>(product_) < reciprocal_;
    }

private:
    std::uint64_t product_;
    std::uint32_t reciprocal_;
};

[[nodiscard]] constexpr std::size_t words_of(const size_class& of) noexcept {
    return (std::size_t{of.block_count} + 63) / 64;
}

[[nodiscard]] constexpr std::uint64_t valid_bits(const size_class& of, std::size_t word) noexcept {
    const std::size_t before = word * 64;
    if (before >= of.block_count) {
        return 0;
    }
    const std::size_t left = of.block_count - before;
    return left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
}

/// One of two places for a slab's block states and bits on media. Blocks are in the lower one, unless the slab was
/// morphed.
enum class slab_bank : std::uint8_t { lower, upper };

[[nodiscard]] constexpr slab_bank bank_of(bool upper) noexcept { return upper ? slab_bank::upper : slab_bank::lower; }

/// Class and bank, as an index of tables.
class slab_kind {
public:
    /// Not every index below it is a kind.
    static constexpr std::size_t count = 128;
    static constexpr unsigned class_bits = 0x3f;
    static constexpr unsigned upper_bit = 0x40;
    static_assert(class_count <= class_bits && (class_bits | upper_bit) == count - 1);

    constexpr slab_kind() noexcept = default;
    constexpr slab_kind(unsigned class_index, slab_bank bank) noexcept
        : index_(class_index | (bank == slab_bank::upper ? upper_bit : 0)) {}
    [[nodiscard]] static constexpr slab_kind of_index(unsigned index) noexcept {
        slab_kind made;
        made.index_ = index;
        return made;
    }

    [[nodiscard]] constexpr unsigned index() const noexcept { return index_; }
    [[nodiscard]] constexpr unsigned class_index() const noexcept { return index_ & class_bits; }
    [[nodiscard]] constexpr const size_class& size() const noexcept { return size_classes[class_index()]; }
    [[nodiscard]] constexpr bool is_upper() const noexcept { return (index_ & upper_bit) != 0; }
    [[nodiscard]] constexpr slab_bank bank() const noexcept { return bank_of(is_upper()); }
    /// The kind of a class's blocks in a slab with blocks of this kind.
    [[nodiscard]] constexpr slab_kind opposite(unsigned other_class) const noexcept {
        return {other_class, bank_of(!is_upper())};
    }
    /// In the slab's bitmap.
    [[nodiscard]] constexpr std::size_t first_word() const noexcept { return is_upper() ? bitmap_words / 2 : 0; }
    [[nodiscard]] constexpr std::size_t words() const noexcept { return words_of(size()); }

    [[nodiscard]] friend constexpr bool operator==(slab_kind, slab_kind) noexcept = default;

private:
    unsigned index_ = 0;
};

}  // namespace holdfast::slab
