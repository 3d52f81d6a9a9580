// The stores in a heap's directory (docs/store-format.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "segment/files/heap_paths.hpp"

namespace holdfast::segment {

[[nodiscard]] std::string store_path(const heap_paths& paths, std::uint64_t number);
/// Nothing for other names.
[[nodiscard]] std::optional<std::uint64_t> store_number(std::string_view name);

}  // namespace holdfast::segment
