// In durability `commit` and `collect` of hardened heaps frees are exact, and blocks wait in quarantine. The inlined
// path never leads here, so other heaps pay nothing.
#pragma once

#include <memory>

#include "heap/block_operations.hpp"

namespace holdfast::heap {

/// `inner`: of the heap's durability, over a hardened block_allocator. May throw std::bad_alloc.
std::unique_ptr<block_operations> make_hardened_operations(std::unique_ptr<block_operations> inner);

}  // namespace holdfast::heap
