// When a block that is reallocated stays where it is, and how much more one gets that moves.
#pragma once

#include <cstdint>

#include "heap/operations/destination_operations.hpp"

namespace holdfast::heap {

/// Whole pages that are long enough, and not twice as long.
[[nodiscard]] bool can_stay(const slab::held_block& old, const void* address, const block_request& wanted) noexcept;
/// `wanted`, and a quarter more if a block of `usable` bytes grows beyond a slab.
[[nodiscard]] std::uint64_t bytes_with_room(std::uint64_t usable, std::uint64_t wanted) noexcept;

}  // namespace holdfast::heap
