#pragma once

#include <cstddef>
#include <cstdint>

#include "slab/classes/size_classes.hpp"

namespace holdfast::slab {

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
