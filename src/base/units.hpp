// Conversions between units are explicit.
#pragma once

#include <compare>
#include <cstdint>

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

}  // namespace holdfast::base
