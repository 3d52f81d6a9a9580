// Whether other threads go on while a call needs that they stand still, as far as it can be seen.
#pragma once

#include <cstdint>

#include "heap/heap.hpp"

namespace holdfast::heap {

/// How many records calls have written in durability `atomic`; 0 in the others.
[[nodiscard]] inline std::uint64_t record_count(engine& of) {
    return of.atomic() == nullptr ? 0 : of.atomic()->lanes().statistics().records;
}

}  // namespace holdfast::heap
