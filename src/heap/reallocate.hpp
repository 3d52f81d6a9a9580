// realloc for blocks of a heap: in place where the block or the space behind it suffices, else by moving.
#pragma once

#include <cstdint>

#include "heap/destination_operations.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

class heap_operations;

/// A block of at least `bytes` (> 0) with the content and the type of `block` as far as both reach; `block` itself
/// where it could stay. A block that moves because it grows gets a quarter more than was asked for, so that one that
/// grows in small steps is seldom copied. Null where there is none: `block` is as it was, and
/// heap_operations::last_failure() says why. Nothing that points to the block is changed. The heap is open for writing.
/// Thread-safe for different blocks.
[[nodiscard]] void* reallocate(heap_operations& heap, void* block, std::uint64_t bytes,
                               std::uint64_t alignment) noexcept;

/// Whether a block that a destination leads to answers the request where it is: one of whole pages that is long enough,
/// and not twice as long.
[[nodiscard]] bool can_stay(const slab::held_block& old, const void* address, const block_request& wanted) noexcept;
/// The bytes that a block that takes the place of `usable` bytes is allocated with: what is wanted, and for one that
/// grows beyond a slab a quarter more.
[[nodiscard]] std::uint64_t bytes_with_room(std::uint64_t usable, std::uint64_t wanted) noexcept;

}  // namespace holdfast::heap
