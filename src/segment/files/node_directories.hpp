// Directories of nodes: a heap may keep its segments in several places, one for each NUMA node, each on memory of that
// node.
//
// `node.K` in the heap's directory is a link to a directory inside the place that was given for node K; that directory
// belongs to the heap alone. Where no place was given, `node.K` is itself the directory. Segment i is a file in the
// directory of node i mod N.
//
// A link is made, durably, before the directory that it leads to. So whatever a crash leaves of a creation or a removal
// can be found from the heap's directory.
//
// Two invariants hold. SEG-4: a node's directory holds a marker that names the heap, by its uuid, and the node. The
// marker is durable before the first segment is made. Nothing is read, written or removed behind a link that leads
// anywhere else.
//
// The other is SEG-5: no two heaps share a directory. Where a heap was copied by other means, links included, the
// marker says where the heap is that the directory was made for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/commit/transaction.hpp"
#include "segment/files/heap_hold.hpp"
#include "segment/format/node_format.hpp"
#include "segment/format/superblock_format.hpp"

namespace holdfast::segment {

/// Fails where the places do not fit the nodes of a heap: there are too many, or one is no directory. "": inside the
/// heap's directory.
base::result<void> check_node_places(persist::storage& storage, const heap_paths& paths,
                                     std::span<const std::string> places);

/// Makes the directories of the heap with this superblock, which is not on media yet. Durable when it returns. After a
/// failure, remove_node_directories() removes what was made.
base::result<void> make_node_directories(persist::storage& storage, const heap_paths& paths,
                                         const superblock_on_media& superblock, std::span<const std::string> places);

/// Checks SEG-4 and SEG-5 of all nodes that the superblock names. `missing`: a directory does not exist, or the file
/// system that holds it is not mounted.
base::result<void> check_node_directories(persist::storage& storage, const heap_paths& paths,
                                          const superblock_on_media& superblock);

/// Holds and locks the directories of nodes that exist and have a marker, in the way the heap's own directory is held
/// and locked. check_node_directories() finds what else may be wrong with them.
base::result<void> hold_nodes(heap_hold& hold, const heap_paths& paths, persist::access_mode mode);

/// Fails where remove_node_directories() would remove anything that is not the heap's, or could not remove everything.
/// Without a superblock, nobody knows the heap's uuid: then what a crash left of a creation or a removal may go.
base::result<void> examine_node_directories(persist::storage& storage, const heap_paths& paths,
                                            const superblock_on_media* superblock);
/// Removes the directories of the nodes and their names, after examining them once more. Durable, except for the
/// removal of their names from the heap's own directory.
base::result<void> remove_node_directories(persist::storage& storage, const heap_paths& paths,
                                           const superblock_on_media* superblock);

}  // namespace holdfast::segment
