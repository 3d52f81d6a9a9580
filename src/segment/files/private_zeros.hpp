#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::segment {

/// Below, stores take less time than questions to the kernel.
inline constexpr std::uint64_t least_asked_about = 2 * 1024 * 1024;
/// Below, one page answers for the others.
inline constexpr std::uint64_t least_asked_wholly = 8 * 1024 * 1024;
/// From here on pages are dropped without a question; glibc returns such blocks.
inline constexpr std::uint64_t least_dropped = 32 * 1024 * 1024;

/// The range lies in memory that map_zeroed() or replace_by_copy() mapped, and no other thread uses it. Pages without
/// memory get none (of a range below `least_asked_wholly`: unless the one in its middle has some), and from
/// `least_dropped` on the others lose theirs. Calls no malloc; may change errno.
void zero_private_memory(std::byte* address, std::uint64_t bytes) noexcept;

}  // namespace holdfast::segment
