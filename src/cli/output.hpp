// How the commands print.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <holdfast/error.hpp>
#include <nlohmann/json_fwd.hpp>

namespace holdfast_cli {

using json = nlohmann::ordered_json;

/// "268435456 (256.0 MiB)": exact, and readable.
[[nodiscard]] std::string size_text(std::uint64_t bytes);
/// "2024-03-01T12:30:05.123456789Z"; "never" for 0.
[[nodiscard]] std::string time_text(std::int64_t nanoseconds_since_1970);

/// "label               value".
void print_line(std::string_view label, std::string_view value);
/// An error as its fields; empty ones are left out.
[[nodiscard]] json describe(const holdfast::error& what);
/// Text of a heap may be any bytes: what is no UTF-8 is replaced.
void print(const json& object);
/// What stopped a command on this heap, as its answer in JSON.
void print_failure(const std::string& heap, const holdfast::error& what);
/// The text with control characters escaped: names are the user's, and the terminal is too.
[[nodiscard]] std::string printable(const std::string& text);

}  // namespace holdfast_cli
