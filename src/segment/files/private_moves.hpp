// Moves what a heap without files holds to other pages, by changing the tables of pages instead of copying bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::segment {

/// Below this a copy takes about as long as the two changes of tables.
inline constexpr std::uint64_t least_moved = 512 * 1024;

/// `to` holds the bytes of `from` afterwards; those of `from` are anything. Both ranges lie in memory that map_zeroed()
/// or replace_by_copy() mapped, do not overlap, and no other thread uses them meanwhile. Pages are moved where both
/// ranges begin at one, the kernel knows MREMAP_DONTUNMAP (Linux 5.7), and the process has half of its mappings free,
/// because a move makes up to two; else bytes are copied. Thread-safe; may change errno.
void move_private_memory(std::byte* to, std::byte* from, std::uint64_t bytes) noexcept;

}  // namespace holdfast::segment
