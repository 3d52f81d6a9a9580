// The kernel limits the mappings of a process (vm.max_map_count), and at the limit mmap fails in an arbitrary place.
#pragma once

#include <cstdint>

#include "base/result.hpp"

namespace holdfast::segment {

/// The most ranges with mappings of their own that a heap should have.
[[nodiscard]] std::uint64_t most_mapped_ranges();

/// Whether this process has half of the mappings or more that it may have. May throw std::bad_alloc.
[[nodiscard]] bool half_of_mappings_in_use();

/// Fails where a growth from `before` to `after` segments would come near the limit. Asks the kernel only where there
/// are many.
base::result<void> check_mappings(std::uint64_t before, std::uint64_t after);

/// check_mappings() that always asks the kernel.
base::result<void> check_mappings_in_use(std::uint64_t before, std::uint64_t after);

}  // namespace holdfast::segment
