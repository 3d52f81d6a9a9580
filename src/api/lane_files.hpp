#pragma once

#include <holdfast/lane_information.hpp>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/heap_files.hpp"

namespace holdfast {

/// Reads the files, because a read-only open has replayed the lanes in its mappings.
[[nodiscard]] base::result<lane_information> read_lanes(const segment::superblock_on_media& superblock,
                                                        persist::storage& storage, const segment::heap_paths& paths);

}  // namespace holdfast
