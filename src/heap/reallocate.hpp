#pragma once

#include <cstdint>

#include "heap/destination_operations.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

class heap_operations;

/// In place where the block or the space behind it suffices, else by moving: a block of at least `bytes` (> 0) with the
/// content and the type of `block`. A block that moves because it grows gets a quarter more than was asked for, so that
/// growth in small steps seldom copies. Null where there is none: `block` is as it was, and
/// heap_operations::last_failure() says why. What points to the block is not changed. The heap is open for writing.
/// Thread-safe for different blocks.
[[nodiscard]] void* reallocate(heap_operations& heap, void* block, std::uint64_t bytes,
                               std::uint64_t alignment) noexcept;

/// Whether a destination's block answers the request where it is: one of whole pages that is long enough, and not twice
/// as long.
[[nodiscard]] bool can_stay(const slab::held_block& old, const void* address, const block_request& wanted) noexcept;
/// For a block in the place of one of `usable` bytes: what is wanted, and a quarter more if it grows beyond a slab.
[[nodiscard]] std::uint64_t bytes_with_room(std::uint64_t usable, std::uint64_t wanted) noexcept;

}  // namespace holdfast::heap
