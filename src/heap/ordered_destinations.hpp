// Blocks with their destinations in the durabilities `commit` and `collect`.
#pragma once

#include <memory>

#include "heap/destination_operations.hpp"

namespace holdfast::heap {

class engine;

/// For a heap that is open for writing, and lives longer. May throw std::bad_alloc.
[[nodiscard]] std::unique_ptr<destination_operations> make_ordered_destinations(engine& heap);

}  // namespace holdfast::heap
