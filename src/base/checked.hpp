// Arithmetic that reports overflow, for every number that comes from a caller or from media.
#pragma once

#include <cstdint>
#include <optional>

namespace holdfast::base {

[[nodiscard]] constexpr std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) noexcept {
    std::uint64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? std::nullopt : std::optional{sum};
}

[[nodiscard]] constexpr std::optional<std::uint64_t> checked_multiply(std::uint64_t a, std::uint64_t b) noexcept {
    std::uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? std::nullopt : std::optional{product};
}

/// `alignment` is a power of two.
[[nodiscard]] constexpr std::optional<std::uint64_t> checked_align_up(std::uint64_t value,
                                                                      std::uint64_t alignment) noexcept {
    const auto sum = checked_add(value, alignment - 1);
    return sum ? std::optional{*sum & ~(alignment - 1)} : std::nullopt;
}

/// `alignment` is a power of two. The result must fit 64 bits.
[[nodiscard]] constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) noexcept {
    return (value + alignment - 1) & ~(alignment - 1);
}

[[nodiscard]] constexpr std::uint64_t align_down(std::uint64_t value, std::uint64_t alignment) noexcept {
    return value & ~(alignment - 1);
}

[[nodiscard]] constexpr bool is_aligned(std::uint64_t value, std::uint64_t alignment) noexcept {
    return (value & (alignment - 1)) == 0;
}

[[nodiscard]] constexpr bool is_power_of_two(std::uint64_t value) noexcept {
    return value != 0 && (value & (value - 1)) == 0;  // std::has_single_bit may call a function that counts bits
}

[[nodiscard]] constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) noexcept {
    return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace holdfast::base
