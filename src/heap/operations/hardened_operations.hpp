// In durability `commit` and `collect` of hardened heaps: exact frees, and a quarantine.
#pragma once

#include <memory>

#include "heap/operations/block_operations.hpp"

namespace holdfast::heap {

/// `inner`: of the heap's durability, over a hardened allocator. May throw std::bad_alloc.
std::unique_ptr<block_operations> make_hardened_operations(std::unique_ptr<block_operations> inner);

}  // namespace holdfast::heap
