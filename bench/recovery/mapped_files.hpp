// What an open cannot do without: to map the files of a heap.
#pragma once

#include <filesystem>

namespace bench {

/// Opens each file of the heap's directory, maps it shared as a whole, and unmaps it; milliseconds. It reads nothing: a
/// clean open of the heap walks its tables, too. Throws std::system_error.
[[nodiscard]] double map_files(const std::filesystem::path& heap);

}  // namespace bench
