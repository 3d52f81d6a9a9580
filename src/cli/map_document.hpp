// The page of `holdfast map`.
#pragma once

#include <string>

#include "map_data.hpp"
#include "output.hpp"
#include "space.hpp"

namespace holdfast_cli {

/// One HTML page that needs nothing else. `header` has path, description, uuid, domain, state, commit, segment_pages,
/// segments and bytes (map.cpp); all text in it is shown as text. `data` is finished, and `space` counts the same
/// extents: the page compares them.
[[nodiscard]] std::string map_document(json header, const space_summary& space, const map_encoder& data);

}  // namespace holdfast_cli
