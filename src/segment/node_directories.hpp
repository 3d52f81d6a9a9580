// Directories of nodes: a heap may keep its segments in several places, one a NUMA node, each on memory of that node.
//
// In the heap's directory `node.K` is a link to a directory that belongs to the heap alone, inside the place that was
// given for node K; or a directory, where none was given. Segment i is a file in the directory of node i mod N.
//
// A link is made, durably, before the directory that it leads to: so whatever a crash leaves of a creation or a removal
// can be found from the heap's directory. SEG-4: a node's directory holds a marker that names the heap, by its uuid,
// and the node; it is durable before the first segment is made. Nothing is read, written or removed behind a link that
// leads anywhere else. SEG-5: no two heaps share a directory: where a heap was copied by other means, links and all,
// the marker says where the one is that it was made for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/heap_hold.hpp"
#include "segment/node_format.hpp"
#include "segment/superblock_format.hpp"
#include "segment/transaction.hpp"

namespace holdfast::segment {

/// Fails where these are no places for the nodes of a heap: too many, or one that is no directory. "": in the heap's.
base::result<void> check_node_places(persist::storage& storage, const heap_paths& paths,
                                     std::span<const std::string> places);

/// Makes the directories of the heap with this superblock, which is not on media yet; durable when it returns. Where it
/// fails, remove_node_directories() removes what was made.
base::result<void> make_node_directories(persist::storage& storage, const heap_paths& paths,
                                         const superblock_on_media& superblock, std::span<const std::string> places);

/// Checks SEG-4 and SEG-5 of all nodes that the superblock speaks of. `missing`: there is no such directory, or the
/// file system that held it is not mounted.
base::result<void> check_node_directories(persist::storage& storage, const heap_paths& paths,
                                          const superblock_on_media& superblock);

/// Holds and locks the directories of nodes that are there and have a marker, as the heap itself is held and locked.
/// What else may be wrong with them is the business of check_node_directories().
base::result<void> hold_nodes(heap_hold& hold, const heap_paths& paths, persist::access_mode mode);

/// Whether remove_node_directories() may remove all that there are, and nothing of anybody else's with them. `uuid`: of
/// the heap; where it has no superblock, none: then what a crash left of making or removing one may go.
base::result<void> examine_node_directories(persist::storage& storage, const heap_paths& paths,
                                            const superblock_on_media* superblock);
/// Removes them and their names. Examines them once more; durable but for their names in the heap's own directory.
base::result<void> remove_node_directories(persist::storage& storage, const heap_paths& paths,
                                           const superblock_on_media* superblock);

}  // namespace holdfast::segment
