// The columns of a stream of Arrow (IPC), as pyarrow writes one: their names and types, and the number of rows. Without
// trust: every offset is checked before it is followed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast_cli {

struct arrow_column {
    std::string name;
    std::string type;  ///< as pyarrow prints it, without what is within a nested one: "int64", "timestamp[us, tz=UTC]"
};

struct arrow_form {
    std::uint64_t rows = 0;
    std::vector<arrow_column> columns;
};

/// Nothing where the bytes are no whole stream.
[[nodiscard]] std::optional<arrow_form> form_of_arrow_stream(std::string_view bytes);

}  // namespace holdfast_cli
