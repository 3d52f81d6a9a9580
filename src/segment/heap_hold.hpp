// The directory of a heap, and those of its nodes: found by their paths once, when the heap is opened, then held and
// locked. A heap is its directory, not its path: what is done to its files is done there, wherever the directory is
// moved, whatever takes its name, and whatever the working directory is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/lock.hpp"
#include "segment/transaction.hpp"

namespace holdfast::segment {

struct heap_hold {
    std::shared_ptr<persist::storage> storage;  ///< in which the heap's paths lead to what is held
    std::vector<heap_lock> locks;               ///< of the heap's directory, then those of its nodes
};

/// Holds the directory of a heap that is there, and does not lock it. `not_found`, `not_a_heap`, or `missing` where it
/// only lacks its superblock.
base::result<std::shared_ptr<persist::storage>> hold_directory(persist::storage& storage, const heap_paths& paths);

/// Holds and locks a heap that is there, and the directories of its nodes. Nothing is written, but for a lock that is
/// missing: that is made where the superblock is one of this format.
base::result<std::shared_ptr<heap_hold>> hold_heap(persist::storage& storage, const heap_paths& paths,
                                                   persist::access_mode mode);

/// Holds a directory that may become a heap. Its files are to be no less private than it is.
base::result<std::shared_ptr<heap_hold>> hold_new_heap(persist::storage& storage, const heap_paths& paths);

/// Writes this process's id to the locks of a heap that was found to be one.
void sign_locks(const heap_hold& hold) noexcept;

/// Whether the path still leads to the directory that is held.
[[nodiscard]] bool leads_to(persist::storage& storage, const std::string& path, persist::storage& held);

/// Makes the directory of a heap. `not_found` with the name of the one that is missing where its parent is not there;
/// `already_exists` where something has the name.
base::result<void> make_heap_directory(persist::storage& storage, const heap_paths& paths, persist::site where);

/// Removes a directory that is empty by now, if the path still leads to it.
base::result<void> remove_held_directory(persist::storage& storage, const std::string& path, persist::storage& held,
                                         persist::site where);

}  // namespace holdfast::segment
