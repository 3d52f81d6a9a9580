#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/error.hpp>
#include <holdfast/open_options.hpp>
#include <nlohmann/json_fwd.hpp>

namespace holdfast_cli {

using json = nlohmann::ordered_json;

/// "268435456 (256.0 MiB)".
[[nodiscard]] std::string size_text(std::uint64_t bytes);
/// "256.0 MiB".
[[nodiscard]] std::string short_size_text(std::uint64_t bytes);
/// For a heap that is opened for writing: says on the standard error stream how far a replay is that takes long.
[[nodiscard]] holdfast::open_options to_change();
/// "2024-03-01T12:30:05.123456789Z"; "never" for 0.
[[nodiscard]] std::string time_text(std::int64_t nanoseconds_since_1970);

/// "label               value".
void print_line(std::string_view label, std::string_view value);
/// Columns fit their widest cell. Each row has as many cells as the first. On a terminal the longest cells are cut, so
/// that a row fits into a line.
void print_table(const std::vector<std::vector<std::string>>& rows);
/// The lines of it, where they may have so many columns; 0: as many as they need.
[[nodiscard]] std::string table_text(const std::vector<std::vector<std::string>>& rows, std::size_t most_columns);
/// Empty fields are left out.
[[nodiscard]] json describe(const holdfast::error& what);
/// On one line. Bytes that are no UTF-8, as names may have, become U+FFFD.
void print(const json& object);
/// The JSON result of a command that the error has stopped.
void print_failure(const std::string& heap, const holdfast::error& what);
/// UTF-8 in which names cannot control a terminal: control characters and marks of writing direction are escaped byte
/// by byte ("\x1b"), and so are bytes that are no UTF-8.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace holdfast_cli
