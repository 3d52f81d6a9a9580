// PAllocator's fragmentation stress (VLDB 2017, section 5 and table 2), and how full each step gets the file system.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "fragmentation/space_backend.hpp"

namespace bench {

struct stress_step {
    std::uint64_t object_bytes = 0;
    std::uint64_t freed_bytes = 0;      ///< before, every other object
    std::uint64_t allocated = 0;        ///< objects, until as much was live as before
    bool filled_again = true;           ///< or the space ran out
    std::uint64_t live_bytes = 0;       ///< then
    std::uint64_t reached_bytes = 0;    ///< live where the next object was refused
    std::uint64_t reached_objects = 0;  ///< allocated to get there; freed again
    std::uint64_t charged_bytes = 0;    ///< by the file system, then
    std::uint64_t refused_commits = 0;  ///< for lack of space
    double milliseconds = 0;            ///< of the calls that freed and allocated, the last filling not counted
};

struct stress_plan {
    std::uint64_t capacity = 0;
    std::uint64_t fill_bytes = 0;  ///< live after each step
    std::uint64_t first_object_bytes = 0;
};

/// That can exist at the same time; none is smaller than the first.
[[nodiscard]] std::size_t stress_objects(const stress_plan& plan) noexcept;

/// Runs all steps: the filling, then twice the size each, as long as one object fits in what was freed. Every page is
/// written, and looked at after each step. Throws std::logic_error where an object was changed by another, or the heap
/// does not go on after it was full.
[[nodiscard]] std::vector<stress_step> run_stress(space_backend& backend, const stress_plan& plan,
                                                  const std::function<std::uint64_t()>& charged);

}  // namespace bench
