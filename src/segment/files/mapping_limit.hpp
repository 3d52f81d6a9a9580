// At the kernel's limit (vm.max_map_count) mmap fails in an arbitrary place.
#pragma once

#include <cstdint>

#include "base/result.hpp"

namespace holdfast::segment {

/// A heap should have at most so many ranges with mappings of their own.
[[nodiscard]] std::uint64_t most_mapped_ranges() noexcept;

/// Takes some 30 ms where it is true.
[[nodiscard]] bool half_of_mappings_in_use() noexcept;

/// Fails where the growth to `after` segments would come near the limit. Asks the kernel only where there are many.
base::result<void> check_mappings(std::uint64_t before, std::uint64_t after);

}  // namespace holdfast::segment
