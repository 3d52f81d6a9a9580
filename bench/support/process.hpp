// Runs this program again, in a process of its own.
#pragma once

#include <string>
#include <vector>

namespace bench {

/// Runs the program that is running with the given arguments, and returns what it wrote to standard output. Throws
/// std::runtime_error where it could not be run or did not exit with 0.
[[nodiscard]] std::string run_self(const std::vector<std::string>& arguments);

}  // namespace bench
