#pragma once

#include <string>

#include "map_data.hpp"
#include "output.hpp"
#include "space.hpp"

namespace holdfast_cli {

/// Self-contained HTML. `header` has path, description, uuid, domain, state, commit, segment_pages, segments and bytes
/// (map.cpp), shown as text. `data` is finished. `space` counts the same extents: the page compares the two.
[[nodiscard]] std::string map_document(json header, const space_summary& space, const map_encoder& data);
/// The page of a store; `header` has all numbers (store_map.cpp).
[[nodiscard]] std::string map_document(json header, const map_encoder& data);

}  // namespace holdfast_cli
