#pragma once

#include <cstddef>
#include <cstdint>

#include "slab/classes/size_classes.hpp"
#include "slab/pool/block_states.hpp"

namespace holdfast::slab {

/// What a thread takes to allocate from it alone: a half or a quarter of the slab, or all of it where a quarter would
/// be few blocks. Sizes about 512 bytes are one part, because four classes share the demand of each doubling.
///
/// Part k holds the blocks [k * count / parts, (k + 1) * count / parts).
inline constexpr unsigned most_parts = 4;
[[nodiscard]] constexpr unsigned parts_of(const size_class& size) noexcept {
    return size.block_size <= 192 || size.block_size > 1024 ? most_parts
           : size.block_size < 256 || size.block_size > 512 ? 2
                                                            : 1;
}
[[nodiscard]] constexpr std::uint32_t first_of_part(const size_class& size, unsigned part) noexcept {
    switch (parts_of(size)) {  // no division
        case 1: return part * std::uint32_t{size.block_count};
        case 2: return part * std::uint32_t{size.block_count} / 2;
        default: return part * std::uint32_t{size.block_count} / most_parts;
    }
}

struct block_range {
    std::uint32_t first = 0;
    std::uint32_t end = 0;

    [[nodiscard]] constexpr std::uint64_t bits(std::size_t word) const noexcept {
        const auto below = [word](std::uint32_t block) {
            return block >= (word + 1) * states_a_word ? ~std::uint64_t{0}
                   : block <= word * states_a_word     ? 0
                                                       : (std::uint64_t{1} << (block % states_a_word)) - 1;
        };
        return below(end) & ~below(first);
    }
    [[nodiscard]] constexpr std::size_t first_word() const noexcept { return first / states_a_word; }
    [[nodiscard]] constexpr std::size_t end_word() const noexcept { return (end + states_a_word - 1) / states_a_word; }
};
[[nodiscard]] constexpr block_range blocks_of_parts(const size_class& size, unsigned first, unsigned parts) noexcept {
    return {first_of_part(size, first), first_of_part(size, first + parts)};
}

}  // namespace holdfast::slab
