// Builds the index of an empty extent_map from its page entries. The caller holds the map's lock. After a failure the
// map is of no use.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/extent_map.hpp"
#include "extent/page_entries.hpp"

namespace holdfast::extent {

/// `unwritten`: free extents of which media say that parts are reserved.
[[nodiscard]] base::result<void> open_extents(extent_map& map, base::pages frontier, extent_visitor each,
                                              std::vector<extent>& unwritten);
[[nodiscard]] base::result<void> recover_extents(extent_map& map, base::pages frontier, extent_visitor each,
                                                 unsigned parts);

}  // namespace holdfast::extent
