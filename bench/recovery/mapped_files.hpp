// What an open cannot do without.
#pragma once

#include <filesystem>

namespace bench {

/// Maps each file of the heap's directory, shared and whole, and unmaps it; milliseconds. It reads nothing: a clean
/// open also walks the tables. Throws std::system_error.
[[nodiscard]] double map_files(const std::filesystem::path& heap);

}  // namespace bench
