// A heap may keep its segments in one place for each NUMA node, on memory of that node.
//
// `node.K` in the heap's directory is a link to a directory of the heap alone inside the place given for node K, or
// itself that directory where no place was given. Segment i is in the directory of node i mod N. A link is made,
// durably, before its directory, so remains can be found.
//
// By SEG-4 a node's directory holds a marker that names heap and node, durably before its first segment. Nothing is
// read, written or removed behind a link that leads anywhere else. By SEG-5 no two heaps share a directory: where a
// heap was copied with its links, the marker says for which path the directory was made.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/files/heap_directories.hpp"
#include "segment/files/heap_paths.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

/// Fails where there are too many, or one is no directory. "": inside the heap's directory.
base::result<void> check_node_places(persist::storage& storage, const heap_paths& paths,
                                     std::span<const std::string> places);

/// The superblock is not on media yet. Durable on return. After a failure, remove_node_directories() cleans up.
base::result<void> make_node_directories(persist::storage& storage, const heap_paths& paths,
                                         const superblock_on_media& superblock, std::span<const std::string> places);

/// SEG-4 and SEG-5. `missing`: a directory does not exist, or its file system is not mounted.
base::result<void> check_node_directories(persist::storage& storage, const heap_paths& paths,
                                          const superblock_on_media& superblock);

/// Holds the directories that exist and have a marker.
base::result<void> open_node_directories(heap_directories& directories, const heap_paths& paths,
                                         persist::access_mode mode);

/// Fails where remove_node_directories() would remove anything that is not the heap's, or leave anything. Without a
/// superblock nobody knows the heap's uuid, and the remains of a creation or a removal may go.
base::result<void> examine_node_directories(persist::storage& storage, const heap_paths& paths,
                                            const superblock_on_media* superblock);
/// Durable, except for the removal of names from the heap's directory.
base::result<void> remove_node_directories(persist::storage& storage, const heap_paths& paths,
                                           const superblock_on_media* superblock);

}  // namespace holdfast::segment
