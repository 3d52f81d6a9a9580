// The directories of a heap and of its nodes: found by their paths when the heap is opened, then held and locked. A
// heap is its directory, not its path: its files are reached through it wherever it is moved, whatever takes its name,
// and whatever the working directory is.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/commit/transaction.hpp"
#include "segment/files/lock.hpp"

namespace holdfast::segment {

struct heap_hold {
    std::shared_ptr<persist::storage> storage;  ///< in it the heap's paths lead to the held directories
    std::vector<heap_lock> locks;               ///< of the heap's directory, then those of its nodes
};

/// `missing` where these are files of a heap with neither superblock nor superblock.new, which an interrupted creation,
/// copy or removal has.
base::result<void> refuse_lost_superblock(const heap_paths& paths, std::span<const std::string> names);

/// Holds the directory of an existing heap without a lock. `not_found`, `not_a_heap`, or `missing` where only the
/// superblock is missing.
base::result<std::shared_ptr<persist::storage>> hold_directory(persist::storage& storage, const heap_paths& paths);

/// Writes nothing, except a missing file `lock` where the superblock is one of this format.
base::result<std::shared_ptr<heap_hold>> hold_heap(persist::storage& storage, const heap_paths& paths,
                                                   persist::access_mode mode);

/// For a directory that may become a heap, whose files will be as private as the directory.
base::result<std::shared_ptr<heap_hold>> hold_new_heap(persist::storage& storage, const heap_paths& paths);

/// Comes after the directory was found to be a heap.
void sign_locks(const heap_hold& hold) noexcept;

[[nodiscard]] bool leads_to(persist::storage& storage, const std::string& path, persist::storage& held);

/// `not_found`, with the name of the missing directory, where the parent does not exist; `already_exists` where
/// something has the name.
base::result<void> make_heap_directory(persist::storage& storage, const heap_paths& paths, persist::site where);

/// Removes an empty directory, if the path still leads to it.
base::result<void> remove_held_directory(persist::storage& storage, const std::string& path, persist::storage& held,
                                         persist::site where);

}  // namespace holdfast::segment
