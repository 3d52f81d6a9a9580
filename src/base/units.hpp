// Units, whose conversions are explicit, and arithmetic that reports overflow.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

namespace holdfast::base {

inline constexpr std::uint64_t kibibyte = 1024;
inline constexpr std::uint64_t mebibyte = 1024 * kibibyte;
inline constexpr std::uint64_t gibibyte = 1024 * mebibyte;
inline constexpr std::uint64_t tebibyte = 1024 * gibibyte;

/// The unit of dirty tracking, extents and commits, fixed by the format.
inline constexpr std::uint64_t page_size = 4 * kibibyte;
/// What one slab fills.
inline constexpr std::uint64_t granule_size = 64 * kibibyte;
inline constexpr std::uint64_t pages_per_granule = granule_size / page_size;
inline constexpr std::uint64_t cache_line_size = 64;

/// Arithmetic wraps around silently.
template <class Tag>
struct quantity {
    std::uint64_t value = 0;

    constexpr auto operator<=>(const quantity&) const = default;
    constexpr quantity& operator+=(quantity other) noexcept {
        value += other.value;
        return *this;
    }
    constexpr quantity& operator-=(quantity other) noexcept {
        value -= other.value;
        return *this;
    }
    friend constexpr quantity operator+(quantity a, quantity b) noexcept { return {a.value + b.value}; }
    friend constexpr quantity operator-(quantity a, quantity b) noexcept { return {a.value - b.value}; }
};

using pages = quantity<struct pages_tag>;
/// Bytes from the heap's base, across all segments. Pages and granules count from there too.
using heap_offset = quantity<struct heap_offset_tag>;
using granule = quantity<struct granule_tag>;

[[nodiscard]] constexpr std::uint64_t to_bytes(pages count) noexcept { return count.value * page_size; }
[[nodiscard]] constexpr pages pages_for(std::uint64_t bytes) noexcept {
    return {bytes / page_size + (bytes % page_size != 0 ? 1 : 0)};
}
[[nodiscard]] constexpr heap_offset offset_of(pages position) noexcept { return {position.value * page_size}; }
[[nodiscard]] constexpr heap_offset offset_of(granule position) noexcept { return {position.value * granule_size}; }
[[nodiscard]] constexpr granule granule_of(heap_offset offset) noexcept { return {offset.value / granule_size}; }
[[nodiscard]] constexpr granule granule_of(pages position) noexcept { return {position.value / pages_per_granule}; }
[[nodiscard]] constexpr pages page_of(heap_offset offset) noexcept { return {offset.value / page_size}; }
[[nodiscard]] constexpr pages first_page(granule position) noexcept { return {position.value * pages_per_granule}; }

// --- for every number that comes from a caller or from media ---

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
