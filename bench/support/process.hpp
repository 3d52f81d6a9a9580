// This process's memory; its program again, in a process of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

/// What can still be read from a file: to its end, or to an error.
[[nodiscard]] std::string read_to_end(int file);

/// Runs this program with the arguments, and returns its standard output. Throws std::runtime_error where it could not
/// be run or did not exit with 0.
[[nodiscard]] std::string run_self(const std::vector<std::string>& arguments);

/// Bytes of all pages of this process that are in memory: Rss of /proc/self/smaps_rollup. Throws std::runtime_error.
[[nodiscard]] std::uint64_t resident_bytes();

}  // namespace bench
