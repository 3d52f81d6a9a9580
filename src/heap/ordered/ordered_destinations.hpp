#pragma once

#include <memory>

#include "heap/operations/destination_operations.hpp"

namespace holdfast::heap {

class heap_operations;

/// `heap` is open for writing and outlives the result. May throw std::bad_alloc.
[[nodiscard]] std::unique_ptr<destination_operations> make_ordered_destinations(heap_operations& heap);

}  // namespace holdfast::heap
