// Builds the index of an extent_map from its page entries: after a clean close, and after a crash.
//
// After a clean close every extent counts, and EXT-1 to EXT-5 are checked. After a crash only entries of blocks count,
// and none lies within an extent (EXT-6); so several threads can read a large heap, each a part.
//
// Both begin with an empty map and set its frontier at the end. The caller holds the map's lock, or no other thread
// uses the map. Where they fail, the map is of no use.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/extent_map.hpp"
#include "extent/page_entries.hpp"

namespace holdfast::extent {

/// Calls `each` for every extent that is not free, in order of address. Reserved extents are free. Writes nothing to
/// media: `unwritten` gets the free extents of which media say that parts of them are reserved. Fails with corrupt. May
/// throw std::bad_alloc.
[[nodiscard]] base::result<void> open_extents(extent_map& map, base::pages frontier, extent_visitor each,
                                              std::vector<extent>& unwritten);
/// Believes only the page entries of used extents, slabs and roots, and writes all others anew. Calls `each` for slabs
/// alone. `parts`: how many threads; 0: chosen by the machine and the heap's size. Fails with corrupt. May throw
/// std::bad_alloc.
[[nodiscard]] base::result<void> recover_extents(extent_map& map, base::pages frontier, extent_visitor each,
                                                 unsigned parts);

}  // namespace holdfast::extent
