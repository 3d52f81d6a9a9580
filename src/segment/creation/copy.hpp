#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/commit/recovery.hpp"
#include "segment/files/heap_directories.hpp"

namespace holdfast::segment {

struct copy_source {
    persist::storage& storage;
    const heap_paths& paths;
    const recovered_state& state;
    /// Asked when the content was copied; a failure ends the copy. Empty: nothing can have changed meanwhile.
    std::function<base::result<void>()> is_unchanged{};
};

/// Makes the state that recover() decided on a clean heap with a uuid of its own and the heap key of its source. After
/// a crash in durability `atomic` or `collect` the copy counts as crashed, and keeps its lanes. The copy is sparse, and
/// each file as private as the source's. Durable on return. Until then the directory is no heap; on failure it is
/// removed. `node_places`: of the copy's segments. `destination` is a path of `storage`. The caller holds the source's
/// lock, and no writer has uncommitted growth.
base::result<void> copy_heap(const copy_source& source, persist::storage& storage, const std::string& destination,
                             std::span<const std::string> node_places = {},
                             persist::shared_blocks blocks = persist::shared_blocks::allowed);

/// Removes also the directories of nodes. `locked` where the heap is open; `invalid_argument`, and nothing is removed,
/// where the directory holds anything else. False where nothing is there. Durable on return. `held`: of this process,
/// which has closed the heap.
base::result<bool> remove_heap(persist::storage& storage, const std::string& directory,
                               std::shared_ptr<heap_directories> held = nullptr);

}  // namespace holdfast::segment
