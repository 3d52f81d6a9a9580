// A heap's directories are found by their paths when it is opened, then held and locked: its files are reached wherever
// they are moved.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/files/address_range.hpp"
#include "segment/files/heap_paths.hpp"
#include "segment/files/lock.hpp"
#include "segment/files/reader_table.hpp"

namespace holdfast::segment {

/// Addresses of a mapping that is gone: the next one takes their place (heap_mapping::leave_addresses()).
struct kept_addresses {
    address_range range;
    std::uint64_t user = 0;  ///< bytes of user space, at the end
    std::uint64_t objects = 0;
};

struct heap_directories {
    std::shared_ptr<persist::storage> storage;  ///< in it the heap's paths lead to the held directories
    /// The heap's directory, then its nodes; none for a reader beside a writer, or beside processes that share the
    /// heap.
    std::vector<heap_lock> locks;
    std::unique_ptr<reader_table> readers;  ///< null: who has the heap open, has the locks
    std::optional<kept_addresses> addresses;
    /// Of processes that take turns: no file has more than the last record says.
    bool was_left_in_order = false;
    bool rests = false;                  ///< this one has not the turn
    bool may_have_stray_stores = true;   ///< of before the turn
    std::uint64_t faults_of_others = 0;  ///< of this process's other threads, when that was found out
    /// Of a reader: it took its slot while nobody had the turn, and the last one was left in order. So home, and the
    /// log up to the last version, are from then on as they were.
    bool came_between_turns = false;
};

/// Who else may have the heap open.
enum class neighbours {
    none,
    readers,
    turns,  ///< readers, and processes that change the heap by turns: the lock is the turn (heap_turns.hpp)
};

/// `missing` where neither superblock nor superblock.new is there, which an interrupted creation, copy or removal has.
base::result<void> refuse_lost_superblock(const heap_paths& paths, std::span<const std::string> names);

/// Takes no lock. `not_found`, `not_a_heap`, or `missing` where only the superblock is missing.
base::result<std::shared_ptr<persist::storage>> open_heap_directory(persist::storage& storage, const heap_paths& paths);

/// Writes nothing, except a missing file `lock` of a superblock of this format. A reader takes a slot of the file
/// `readers`, where there is one that it may write, and has no lock where a writer lets readers come, or processes take
/// turns. A writer is refused where there are readers, unless it lets them be. `locked`. One that takes turns waits for
/// its turn, and is refused beside a writer that does not; `unsupported` where the heap has stores, or no file
/// `readers` that processes can share. A reader that is told of turns waits until nobody has one.
base::result<std::shared_ptr<heap_directories>> open_heap_directories(persist::storage& storage,
                                                                      const heap_paths& paths,
                                                                      persist::access_mode mode,
                                                                      neighbours beside = neighbours::none);

/// A writer that does not share the heap has it open, and the file `readers` to say so.
[[nodiscard]] bool is_had_alone(persist::storage& storage, const heap_paths& paths);

/// For who is going to remove the heap, or to change it in ways that readers cannot follow, and has its lock. `locked`.
base::result<void> refuse_readers(heap_directories& directories, const heap_paths& paths);

/// The files will be as private as the directory.
base::result<std::shared_ptr<heap_directories>> make_heap_directories(persist::storage& storage,
                                                                      const heap_paths& paths);

/// Comes after the directory was found to be a heap.
void sign_locks(const heap_directories& directories) noexcept;

[[nodiscard]] bool leads_to(persist::storage& storage, const std::string& path, persist::storage& held);

/// `not_found` names the missing directory above; `already_exists` where something has the name.
base::result<void> make_heap_directory(persist::storage& storage, const heap_paths& paths, persist::site where);

/// Does nothing where the path leads elsewhere by now. The directory must be empty.
base::result<void> remove_held_directory(persist::storage& storage, const std::string& path, persist::storage& held,
                                         persist::site where);

}  // namespace holdfast::segment
