// Which of some words may be pointers into the heap: what conservative marking asks of every word it meets.
#pragma once

#include <cstdint>

namespace holdfast::heap {

/// Words that are looked at together.
inline constexpr std::uint64_t scan_group = 8;
/// At most so many words at a time.
inline constexpr std::uint64_t scan_limit = 64 * scan_group;

/// What a word must be to be a pointer.
struct scan_limits {
    std::uint64_t end = 0;      ///< bytes of the heap, above 0, below 2^63
    std::uint64_t address = 0;  ///< of the heap, where addresses count
    bool raw = false;           ///< they do
};

/// Bit k: one of the words 8 k to 8 k + 7 may be a pointer. `words` has `groups` times 8 words, the first at `offset`
/// from the heap's base.
using scan_function = std::uint64_t (*)(const std::uint64_t* words, std::uint64_t groups, std::uint64_t offset,
                                        const scan_limits& limits) noexcept;

/// The fastest for this processor.
[[nodiscard]] scan_function fastest_scan() noexcept;
/// The one for every processor: what the others are compared with.
[[nodiscard]] std::uint64_t scan_anywhere(const std::uint64_t* words, std::uint64_t groups, std::uint64_t offset,
                                          const scan_limits& limits) noexcept;

}  // namespace holdfast::heap
