// What Python stores of types that C++ has not (datetime, UUID, frames), as a person reads it. Without trust: a content
// that such a value cannot have is nothing.
#pragma once

#include <optional>
#include <string>

#include "output.hpp"
#include "value_tree.hpp"

namespace holdfast_cli {

/// "2026-01-02T03:04:05+01:00", "1 day, 0:00:02", "272cb009-...". Nothing for other types.
[[nodiscard]] std::optional<std::string> text_of_extended(const value_tree& tree, const values::value& of);
/// Of a frame, a table, a series or a column: {"rows": 3, "columns": [{"name": "a", "type": "int64"}]}.
[[nodiscard]] std::optional<json> form_of_frame(const value_tree& tree, const values::value& of);

}  // namespace holdfast_cli
