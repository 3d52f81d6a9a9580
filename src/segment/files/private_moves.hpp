// Moves what a heap without files holds from some of its pages to others, by changing the tables of pages instead of
// copying bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::segment {

/// What is shorter is copied: below, a copy takes about as long as the two changes of tables.
inline constexpr std::uint64_t least_moved = 512 * 1024;

/// `to` holds the bytes of `from` afterwards; those of `from` are anything. Both ranges lie in memory that map_zeroed()
/// or replace_by_copy() mapped, do not overlap, and no other thread uses them meanwhile. Pages go as they are where
/// both begin at one; the kernel must know MREMAP_DONTUNMAP (Linux 5.7), and half of the mappings that this process may
/// have must be free, because each move makes up to two. Else the bytes are copied. Thread-safe; may change errno.
void move_private_memory(std::byte* to, std::byte* from, std::uint64_t bytes) noexcept;

}  // namespace holdfast::segment
