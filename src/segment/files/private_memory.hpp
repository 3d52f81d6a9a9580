// Large ranges of memory that belong to this process alone: moved and zeroed by the kernel's page tables, and kept from
// a child of fork, or given to it as a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace holdfast::segment {

/// Below this a copy takes about as long.
inline constexpr std::uint64_t least_moved = 512 * 1024;

/// Both ranges lie in memory that map_zeroed() or replace_by_copy() mapped, do not overlap, and no other thread uses
/// them. What `from` holds afterwards is unspecified. Page tables change where both ranges begin at a page, less
/// than half of `to` has memory, the kernel knows MREMAP_DONTUNMAP (Linux 5.7), and the process has half of its
/// mappings free: a move makes up to two. Else bytes are copied. Thread-safe; may change errno.
void move_private_memory(std::byte* to, std::byte* from, std::uint64_t bytes) noexcept;

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

/// Counted from the begin of a mapping.
struct byte_range {
    std::uint64_t begin = 0;
    std::uint64_t length = 0;
};

base::result<void> show_range_to_child(std::byte* address, std::uint64_t bytes, bool shown);

/// Replaces the mapping by memory of this process with the content of `ranges`, and zeros.
base::result<void> replace_by_copy(std::byte* address, std::uint64_t bytes, std::span<const byte_range> ranges);

}  // namespace holdfast::segment
