#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <holdfast/manager.hpp>

#include "map.hpp"

namespace maps {

[[nodiscard]] const std::vector<std::string_view>& map_names();
/// The map of that kind in the heap, which may have one of each; made where there is none. Null where there is no such
/// kind. The heap must outlive it.
[[nodiscard]] std::unique_ptr<checked_map> open_map(holdfast::manager& heap, std::string_view kind);

}  // namespace maps
