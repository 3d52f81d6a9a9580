#pragma once

#include <cstdint>

namespace holdfast::heap {

class heap_operations;

/// In place where the block, at a multiple of `alignment`, or the space behind it suffices, else by moving: a block of
/// at least `bytes` (> 0) with the content and the type of `block`. One that moves to grow gets a quarter more, without
/// files twice as much, so that growth in small steps seldom copies. Null, with heap_operations::last_failure(), where
/// there is none: `block` is as it was. What points to the block is not changed. The heap is open for writing.
/// Thread-safe for different blocks.
[[nodiscard]] void* reallocate(heap_operations& heap, void* block, std::uint64_t bytes,
                               std::uint64_t alignment) noexcept;

}  // namespace holdfast::heap
