// Whether threads that should stand still go on, as far as it can be seen.
#pragma once

#include <cstdint>

#include "heap/heap.hpp"

namespace holdfast::heap {

/// Records written in durability `atomic`; 0 in the others.
[[nodiscard]] inline std::uint64_t record_count(engine& of) {
    return of.atomic() == nullptr ? 0 : of.atomic()->lanes().statistics().records;
}

}  // namespace holdfast::heap
