#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "extent/extent.hpp"

namespace holdfast::extent {

inline std::uint64_t test_time = 0;
inline std::uint64_t test_clock() noexcept { return test_time; }

inline std::vector<std::string> problems_of(const extent_allocator& allocator) {
    std::vector<std::string> problems;
    allocator.check(problems);
    return problems;
}

}  // namespace holdfast::extent
