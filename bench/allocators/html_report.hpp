// What was measured, as one page that needs nothing else: plots against the number of threads, tables, goals.
#pragma once

#include <filesystem>
#include <vector>

#include "allocators/comparison.hpp"

namespace bench {

/// Throws std::system_error where the file cannot be written.
void write_html_report(const std::filesystem::path& file, const std::vector<configuration>& all, const report& judged,
                       const common_options& options);

}  // namespace bench
