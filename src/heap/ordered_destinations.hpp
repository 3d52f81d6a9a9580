// Blocks with their destinations in durability `commit` and `collect`.
#pragma once

#include <memory>

#include "heap/destination_operations.hpp"

namespace holdfast::heap {

class engine;

/// `heap` is open for writing and outlives the result. May throw std::bad_alloc.
[[nodiscard]] std::unique_ptr<destination_operations> make_ordered_destinations(engine& heap);

}  // namespace holdfast::heap
