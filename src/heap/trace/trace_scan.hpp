#pragma once

#include <cstdint>

namespace holdfast::heap {

/// Words examined together.
inline constexpr std::uint64_t scan_group = 8;
/// At most, in one call.
inline constexpr std::uint64_t scan_limit = 64 * scan_group;

struct scan_limits {
    std::uint64_t end = 0;      ///< bytes of the heap; 0 < end < 2^63
    std::uint64_t address = 0;  ///< of the heap, for raw pointers
    bool raw = false;           ///< addresses count as pointers
};

/// Bit k of the result: one of words 8 k to 8 k + 7 may be a pointer. The first of 8 `groups` words lies `offset` bytes
/// from the heap's base.
using scan_function = std::uint64_t (*)(const std::uint64_t* words, std::uint64_t groups, std::uint64_t offset,
                                        const scan_limits& limits) noexcept;

[[nodiscard]] scan_function fastest_scan() noexcept;
/// The reference for the others.
[[nodiscard]] std::uint64_t scan_anywhere(const std::uint64_t* words, std::uint64_t groups, std::uint64_t offset,
                                          const scan_limits& limits) noexcept;

}  // namespace holdfast::heap
