// Zeros for a block of a heap without files, with as few stores and as little memory as the kernel allows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::segment {

/// Below this, to ask the kernel about pages takes longer than stores.
inline constexpr std::uint64_t least_asked_about = 2 * 1024 * 1024;
/// Below this one page answers for the others, because an answer for each takes as long as a tenth of the stores.
inline constexpr std::uint64_t least_asked_wholly = 8 * 1024 * 1024;
/// From here on pages are dropped without a question; glibc returns blocks from this size on.
inline constexpr std::uint64_t least_dropped = 32 * 1024 * 1024;

/// Makes all bytes read as zero. The range lies in memory that map_zeroed() or replace_by_copy() mapped, and no other
/// thread uses it meanwhile. Pages without memory get none (of a range below `least_asked_wholly`: unless the one in
/// its middle has some), and from `least_dropped` on the others lose theirs. Calls no malloc; may change errno.
void zero_private_memory(std::byte* address, std::uint64_t bytes) noexcept;

}  // namespace holdfast::segment
