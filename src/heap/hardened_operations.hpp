// Hardened heaps in the durabilities `commit` and `collect`: every free is exact, and keeps its block back for a while.
// They take the path of collect_operations, which the fastest path has left already; so other heaps have nothing to
// ask.
#pragma once

#include <memory>

#include "heap/collect_operations.hpp"

namespace holdfast::heap {

/// `inner`: what durability `collect` needs besides, or null. `blocks`, which lives longer, is hardened already. May
/// throw std::bad_alloc.
std::unique_ptr<collect_operations> make_hardened_operations(std::unique_ptr<collect_operations> inner,
                                                             slab::block_allocator& blocks);

}  // namespace holdfast::heap
