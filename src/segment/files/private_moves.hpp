#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::segment {

/// Below this a copy takes about as long.
inline constexpr std::uint64_t least_moved = 512 * 1024;

/// Both ranges lie in memory that map_zeroed() or replace_by_copy() mapped, do not overlap, and no other thread uses
/// them. What `from` holds afterwards is unspecified. Page tables change where both ranges begin at a page, less
/// than half of `to` has memory, the kernel knows MREMAP_DONTUNMAP (Linux 5.7), and the process has half of its
/// mappings free: a move makes up to two. Else bytes are copied. Thread-safe; may change errno.
void move_private_memory(std::byte* to, std::byte* from, std::uint64_t bytes) noexcept;

}  // namespace holdfast::segment
