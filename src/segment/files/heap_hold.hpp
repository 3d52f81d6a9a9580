// A heap's directories are found by their paths when it is opened, then held and locked: its files are reached wherever
// they are moved.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/files/heap_paths.hpp"
#include "segment/files/lock.hpp"

namespace holdfast::segment {

struct heap_hold {
    std::shared_ptr<persist::storage> storage;  ///< in it the heap's paths lead to the held directories
    std::vector<heap_lock> locks;               ///< the heap's directory, then its nodes
};

/// `missing` where neither superblock nor superblock.new is there, which an interrupted creation, copy or removal has.
base::result<void> refuse_lost_superblock(const heap_paths& paths, std::span<const std::string> names);

/// Takes no lock. `not_found`, `not_a_heap`, or `missing` where only the superblock is missing.
base::result<std::shared_ptr<persist::storage>> hold_directory(persist::storage& storage, const heap_paths& paths);

/// Writes nothing, except a missing file `lock` of a superblock of this format.
base::result<std::shared_ptr<heap_hold>> hold_heap(persist::storage& storage, const heap_paths& paths,
                                                   persist::access_mode mode);

/// The files will be as private as the directory.
base::result<std::shared_ptr<heap_hold>> hold_new_heap(persist::storage& storage, const heap_paths& paths);

/// Comes after the directory was found to be a heap.
void sign_locks(const heap_hold& hold) noexcept;

[[nodiscard]] bool leads_to(persist::storage& storage, const std::string& path, persist::storage& held);

/// `not_found` names the missing directory above; `already_exists` where something has the name.
base::result<void> make_heap_directory(persist::storage& storage, const heap_paths& paths, persist::site where);

/// Does nothing where the path leads elsewhere by now. The directory must be empty.
base::result<void> remove_held_directory(persist::storage& storage, const std::string& path, persist::storage& held,
                                         persist::site where);

}  // namespace holdfast::segment
