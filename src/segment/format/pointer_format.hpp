// A `holdfast::ptr` word on media (docs/format.md, section "pointers"). Bits 0..47: distance in bytes from the word to
// its target, plus 2^47; 0 is null. Bits 48..63: the stamp.
#pragma once

#include <cstdint>

namespace holdfast::segment {

inline constexpr unsigned pointer_distance_bits = 48;
inline constexpr std::uint64_t pointer_distance_mask = (std::uint64_t{1} << pointer_distance_bits) - 1;
inline constexpr std::uint64_t pointer_distance_bias = std::uint64_t{1} << (pointer_distance_bits - 1);

[[nodiscard]] constexpr std::uint16_t stamp_of(std::uint64_t word) noexcept {
    return static_cast<std::uint16_t>(word >> pointer_distance_bits);
}
[[nodiscard]] constexpr bool is_null_pointer(std::uint64_t word) noexcept {
    return (word & pointer_distance_mask) == 0;
}
[[nodiscard]] constexpr std::uint64_t null_pointer(std::uint16_t stamp) noexcept {
    return std::uint64_t{stamp} << pointer_distance_bits;
}
/// Addresses, or offsets from one base: only their difference counts.
[[nodiscard]] constexpr std::uint64_t encode_pointer(std::uint64_t from, std::uint64_t to,
                                                     std::uint16_t stamp) noexcept {
    return null_pointer(stamp) | ((to - from + pointer_distance_bias) & pointer_distance_mask);
}
/// The word is not null.
[[nodiscard]] constexpr std::uint64_t decode_pointer(std::uint64_t from, std::uint64_t word) noexcept {
    return from + (word & pointer_distance_mask) - pointer_distance_bias;
}

}  // namespace holdfast::segment
