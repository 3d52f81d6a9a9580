// Hardened heaps in durability `commit` and `collect`: frees are exact, and blocks wait in quarantine. The inlined path
// never leads here, so other heaps pay nothing.
#pragma once

#include <memory>

#include "heap/collect_operations.hpp"

namespace holdfast::heap {

/// `inner`: of durability `collect`, or null. `blocks` is hardened and outlives the result. May throw std::bad_alloc.
std::unique_ptr<collect_operations> make_hardened_operations(std::unique_ptr<collect_operations> inner,
                                                             slab::block_allocator& blocks);

}  // namespace holdfast::heap
