// Heaps as files: copying one, removing one.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/heap_hold.hpp"
#include "segment/recovery.hpp"

namespace holdfast::segment {

/// Where a copy is made from: the storage that holds the heap, and the files in it.
struct copy_source {
    persist::storage& storage;
    const heap_paths& paths;
    const recovered_state& state;
};

/// Copies the state that recover() decided on to a new directory: a clean heap with a uuid of its own and the same heap
/// key. A heap that crashed in durability `atomic` is copied with its lanes, as one that crashed: its next open
/// recovers it. Stays sparse; shares blocks where it may (`blocks`) and the file system can. No file of it may be used
/// by anybody who may not use that of the source. Durable when it returns; until then the directory is no heap, and on
/// failure it is removed. The segments of the copy lie in its directory, or in `node_places`, whatever those of the
/// source do. `destination` is a path of `storage`. The caller holds the source's lock, and no writer has uncommitted
/// growth.
base::result<void> copy_heap(const copy_source& source, persist::storage& storage, const std::string& destination,
                             std::span<const std::string> node_places = {},
                             persist::shared_blocks blocks = persist::shared_blocks::allowed);

/// Removes the heap's own files, the directories of its nodes, and its directory. `locked` where somebody has it open;
/// `invalid_argument`, and nothing removed, where the directory holds anything else. False where nothing is there.
/// Durable when it returns. `held`: by this process, who has it open no more.
base::result<bool> remove_heap(persist::storage& storage, const std::string& directory,
                               std::shared_ptr<heap_hold> held = nullptr);

}  // namespace holdfast::segment
