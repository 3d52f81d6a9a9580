// Zeros for a block of a heap without files: as few stores, and as little memory, as the kernel lets it be.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::segment {

/// A block below this is zeroed by stores: to ask the kernel about its pages would take longer.
inline constexpr std::uint64_t least_asked_about = 2 * 1024 * 1024;
/// Below this one page answers for the others, because an answer for each takes as long as a tenth of the stores.
inline constexpr std::uint64_t least_asked_wholly = 8 * 1024 * 1024;
/// The pages of a block from here on are dropped without a question, as glibc returns blocks from this size on.
inline constexpr std::uint64_t least_dropped = 32 * 1024 * 1024;

/// Makes all bytes of the range read as zero. It lies in memory that map_zeroed() or replace_by_copy() mapped, and no
/// other thread uses it meanwhile. Pages that have no memory get none (of a range below `least_asked_wholly`: unless
/// the one in its middle has some), and from `least_dropped` on the others lose theirs. Calls no malloc; may change
/// errno.
void zero_private_memory(std::byte* address, std::uint64_t bytes) noexcept;

}  // namespace holdfast::segment
