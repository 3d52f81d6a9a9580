#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/commit/recovery.hpp"
#include "segment/files/heap_hold.hpp"

namespace holdfast::segment {

/// The storage that holds the heap, and the files in it.
struct copy_source {
    persist::storage& storage;
    const heap_paths& paths;
    const recovered_state& state;
    /// Asked when the content was copied; a failure ends the copy. Empty: nothing can have changed meanwhile.
    std::function<base::result<void>()> is_unchanged{};
};

/// Copies the state that recover() decided on to a new directory, as a clean heap with a uuid of its own and the heap
/// key of its source. A heap that crashed in durability `atomic` is copied with its lanes and counts as crashed. The
/// copy is sparse, and shares blocks with the source where `blocks` allows it and the file system can. Each file is as
/// private as the source's.
///
/// Durable on return. Until then the directory is no heap; on failure it is removed. The segments of the copy lie in
/// its directory or in `node_places`, wherever those of the source lie. `destination` is a path of `storage`. The
/// caller holds the source's lock, and no writer has uncommitted growth.
base::result<void> copy_heap(const copy_source& source, persist::storage& storage, const std::string& destination,
                             std::span<const std::string> node_places = {},
                             persist::shared_blocks blocks = persist::shared_blocks::allowed);

/// Removes the heap's files, the directories of its nodes, and its directory. `locked` where it is open;
/// `invalid_argument`, and nothing is removed, where the directory holds anything else. False where nothing is there.
/// Durable on return. `held`: the hold of this process, which has closed the heap.
base::result<bool> remove_heap(persist::storage& storage, const std::string& directory,
                               std::shared_ptr<heap_hold> held = nullptr);

}  // namespace holdfast::segment
