#include "segment/files/heap_directories.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "segment/files/heap_paths.hpp"
#include "segment/files/node_directories.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::result;
using persist::access_mode;

/// The directory may be moved or removed while it is opened.
constexpr int attempts = 16;

failure not_a_heap(const std::string& directory, std::string found) {
    return failure{failure_code::not_a_heap, directory, "directory", std::move(found), "the files of a heap", {}, 0};
}

failure moving(const heap_paths& paths) {
    return failure{failure_code::locked,
                   paths.directory(),
                   "directory",
                   "another one each time it is looked for",
                   "one that stays",
                   {},
                   0};
}

result<void> examine_names(persist::storage& storage, const heap_paths& paths) {
    HF_TRY_ASSIGN(const std::vector<std::string> names, storage.list(paths.directory()));
    if (std::find(names.begin(), names.end(), "superblock") != names.end()) {
        return {};
    }
    HF_TRY(refuse_lost_superblock(paths, names));
    return not_a_heap(paths.directory(),
                      names.empty() ? "an empty directory" : fmt::format("no superblock, but {}", names.front()));
}

result<std::shared_ptr<persist::storage>> open_what_is_there(persist::storage& storage, const heap_paths& paths) {
    HF_TRY_ASSIGN(const bool there, storage.exists(paths.directory()));
    if (!there) {
        return failure{failure_code::not_found, paths.directory(), "directory", "nothing", "a heap", {}, 0};
    }
    auto held = storage.hold(paths.directory());
    if (!held && held.error().os_error == ENOTDIR) {
        return not_a_heap(paths.directory(), "a file");
    }
    return held;
}

result<superblock_copies_read> read_superblocks(persist::storage& storage, const heap_paths& paths) {
    HF_TRY_ASSIGN(auto file, storage.open(paths.superblock(), access_mode::read_only));
    return segment::read_superblocks(*file);
}

/// Nothing is made beside a file that is no superblock of a heap.
result<heap_lock::missing_file> what_to_do_without_lock(persist::storage& storage, const heap_paths& paths) {
    HF_TRY_ASSIGN(const superblock_copies_read copies, read_superblocks(storage, paths));
    return copies.newest() != nullptr ? heap_lock::missing_file::make : heap_lock::missing_file::do_without;
}

/// Readers of a heap with several directories, or with stores, whose files have no versions, keep writers out.
result<bool> may_have_readers_beside(persist::storage& storage, const heap_paths& paths) {
    HF_TRY_ASSIGN(const std::vector<std::string> names, storage.list(paths.directory()));
    return std::ranges::none_of(
        names, [](const std::string& name) { return heap_paths::node_index(name) || store_number(name); });
}

failure with_hint_of_table(failure locked, persist::storage& storage, const heap_paths& paths,
                           const result<std::unique_ptr<reader_table>>& table) {
    if (!table) {
        locked.hint = fmt::format(
            "a reader beside a writer says in the file readers which version it reads, which this "
            "process may not: {}; copy the heap with a snapshot, and read that",
            table.error().message());
    } else if (const std::string machines = reader_table::file_system_that_machines_share(storage, paths);
               *table == nullptr && !machines.empty()) {
        locked.hint = fmt::format("on {}, which machines share, a heap has a writer or readers", machines);
    }
    return locked;
}

/// Whether nobody has a turn, and the last one was left in order: then who has the next one finds this reader's slot,
/// and the reader needs no lock, with which it would keep all of them waiting if it were stopped. The slot comes before
/// the look; who takes the turn says so before it asks who reads.
result<bool> comes_between_turns(const heap_directories& directories) {
    if (directories.readers == nullptr || !directories.readers->turns().is_shared()) {
        return false;
    }
    if (!directories.readers->has_slot()) {
        HF_TRY(directories.readers->take());
    }
    return directories.readers->turns().left_by() != 0;
}

/// Turns that go from hand to hand leave a moment between two of them. A death leaves none.
result<bool> waits_for_moment_between_turns(const heap_directories& directories) {
    constexpr int most_looks = 1000;
    for (int look = 1;; ++look) {
        HF_TRY_ASSIGN(const bool is_found, comes_between_turns(directories));
        if (is_found || look == most_looks || directories.readers == nullptr ||
            directories.readers->writer_pid() == 0) {
            return is_found;
        }
        std::this_thread::yield();
    }
}

/// `turns`: where processes change the heap by turns, waits until it is this one's. Else it has a slot before it asks,
/// so that a writer which it finds knows of it.
result<heap_lock> lock_to_read(const heap_directories& directories, const heap_paths& paths, neighbours beside) {
    const auto acquire = [&](heap_lock::patience waits) {
        return heap_lock::acquire(*directories.storage, paths.directory(), access_mode::read_only,
                                  heap_lock::missing_file::do_without, waits);
    };
    if (beside != neighbours::turns || directories.readers == nullptr || !directories.readers->turns().is_shared()) {
        if (directories.readers != nullptr && !directories.readers->has_slot()) {
            HF_TRY(directories.readers->take());
        }
        return acquire(heap_lock::patience::none);
    }
    directories.readers->leave();
    HF_TRY(directories.readers->turns().wait_in_line());
    auto lock = acquire(heap_lock::patience::enough);
    directories.readers->turns().leave_line();
    if (lock) {
        HF_TRY(directories.readers->take());
    }
    return lock;
}

/// Waits for what another process does in a moment: an opening, a close, a commit that gives space back.
result<void> lock_for_reader(heap_directories& directories, const heap_paths& paths, neighbours beside) {
    constexpr std::chrono::seconds longest{5};
    constexpr std::chrono::seconds longest_commit{60};
    const auto begin = std::chrono::steady_clock::now();
    HF_TRY_ASSIGN(const bool is_possible, may_have_readers_beside(*directories.storage, paths));
    auto table = is_possible ? reader_table::open(*directories.storage, paths, reader_table::missing_file::do_without)
                             : result<std::unique_ptr<reader_table>>(nullptr);
    if (table && *table != nullptr) {
        directories.readers = std::move(table).value();
    }
    for (;;) {
        HF_TRY_ASSIGN(directories.came_between_turns, beside == neighbours::turns
                                                          ? waits_for_moment_between_turns(directories)
                                                          : comes_between_turns(directories));
        if (directories.came_between_turns) {
            return {};
        }
        auto lock = lock_to_read(directories, paths, beside);
        if (lock) {
            HF_TRY_ASSIGN(directories.came_between_turns, comes_between_turns(directories));
            if (!directories.came_between_turns) {
                directories.locks.push_back(std::move(lock).value());
            }
            return {};
        }
        if (lock.error().code != failure_code::locked || directories.readers == nullptr) {
            return with_hint_of_table(std::move(lock).error(), *directories.storage, paths, table);
        }
        const writer_kind writer = directories.readers->writer();
        if (writer == writer_kind::beside) {
            return {};
        }
        const auto most = writer == writer_kind::excluding ? longest_commit : longest;
        if (writer == writer_kind::alone || std::chrono::steady_clock::now() - begin >= most) {
            directories.readers->leave();
            return std::move(lock).error();
        }
        if (writer != writer_kind::excluding) {  // the slot ends such a time: the next commit gives no space back
            directories.readers->leave();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

failure shared_by_others(const heap_paths& paths) {
    return failure{failure_code::locked,
                   paths.readers(),
                   "writers by turns",
                   "other processes, which share the heap",
                   "nobody",
                   "open it shared, too, or when they have closed it",
                   0};
}

result<void> refuse_readers_but(heap_directories& directories, const heap_paths& paths, neighbours beside) {
    if (beside != neighbours::turns) {
        // Where it cannot be read, who reads is not known.
        HF_TRY_ASSIGN(directories.readers,
                      reader_table::open(*directories.storage, paths, reader_table::missing_file::do_without));
    }
    if (directories.readers == nullptr) {
        return {};
    }
    if (beside != neighbours::turns && !directories.readers->turns().try_to_have_alone()) {
        directories.readers.reset();
        return shared_by_others(paths);
    }
    if (beside != neighbours::turns) {
        directories.readers->turns().set_left_by(0);
    }
    directories.readers->set_writer(beside == neighbours::none ? writer_kind::alone : writer_kind::opening);
    if (beside != neighbours::none || !directories.readers->any(dead_readers::do_not_count)) {
        return {};
    }
    std::string who;
    for (const reader_information& each : directories.readers->readers()) {
        who += fmt::format("{}reader, process {}", who.empty() ? "" : ", ", each.pid);
    }
    directories.readers.reset();
    return failure{failure_code::locked,
                   paths.readers(),
                   "readers",
                   std::move(who),
                   "nobody",
                   "only a writer in durability commit may have readers beside it",
                   0};
}

result<void> lock_for_writer(heap_directories& directories, const heap_paths& paths, neighbours beside) {
    // A reader that finds no writer has the lock while it opens the heap, and a slot from then on.
    constexpr std::chrono::seconds longest{5};
    const auto end = std::chrono::steady_clock::now() + longest;
    HF_TRY_ASSIGN(const auto missing, what_to_do_without_lock(*directories.storage, paths));
    for (;;) {
        auto lock = heap_lock::acquire(*directories.storage, paths.directory(), access_mode::read_write, missing);
        if (lock) {
            directories.locks.push_back(std::move(lock).value());
            return refuse_readers_but(directories, paths, beside);
        }
        const auto table = reader_table::open(*directories.storage, paths, reader_table::missing_file::do_without);
        const bool is_opened =
            table && *table != nullptr && (*table)->writer_pid() == 0 && (*table)->any(dead_readers::do_not_count);
        if (lock.error().code != failure_code::locked || !is_opened || std::chrono::steady_clock::now() >= end) {
            return std::move(lock).error();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

failure cannot_be_shared(const heap_paths& paths, std::string found) {
    return failure{failure_code::unsupported,
                   paths.directory(),
                   "a heap to be shared by writers",
                   std::move(found),
                   "one directory on a local file system, and no store",
                   "open it in one process alone",
                   0};
}

/// The first one of a heap without the file `readers` makes it; then it has the heap's lock.
result<bool> open_table_to_share(heap_directories& directories, const heap_paths& paths) {
    HF_TRY_ASSIGN(directories.readers,
                  reader_table::open(*directories.storage, paths, reader_table::missing_file::do_without));
    if (directories.readers != nullptr) {
        return false;
    }
    HF_TRY_ASSIGN(const auto missing, what_to_do_without_lock(*directories.storage, paths));
    HF_TRY_ASSIGN(auto lock,
                  heap_lock::acquire(*directories.storage, paths.directory(), access_mode::read_write, missing));
    directories.locks.push_back(std::move(lock));
    // With the lock, since without it somebody may be writing both copies.
    HF_TRY_ASSIGN(const superblock_copies_read copies, read_superblocks(*directories.storage, paths));
    if (copies.newest() == nullptr) {
        return copies.why_none();
    }
    HF_TRY_ASSIGN(directories.readers,
                  reader_table::open(*directories.storage, paths, reader_table::missing_file::make));
    if (directories.readers == nullptr) {
        const std::string machines = reader_table::file_system_that_machines_share(*directories.storage, paths);
        return cannot_be_shared(paths, machines.empty() ? "no space for the file readers"
                                                        : machines + ", a file system that machines share");
    }
    return true;
}

/// The lock says who.
failure had_alone(persist::storage& storage, const heap_paths& paths) {
    const auto lock = heap_lock::acquire(storage, paths.directory(), access_mode::read_write);
    return failure{
        failure_code::locked,
        paths.directory(),
        "lock",
        lock ? "a writer that had the heap alone, until now" : lock.error().found,
        "processes that share the heap",
        "a writer that does not share the heap has it: open it shared there, too, or when that one has closed it",
        0};
}

/// The turn goes to one after the other: who waits next has the place in the line.
result<void> lock_by_turns(heap_directories& directories, const heap_paths& paths) {
    HF_TRY_ASSIGN(const bool is_possible, may_have_readers_beside(*directories.storage, paths));
    if (!is_possible) {
        return cannot_be_shared(paths, "several directories, or a store, whose files have no versions");
    }
    HF_TRY_ASSIGN(const bool has_lock, open_table_to_share(directories, paths));
    if (!directories.readers->turns().try_to_share()) {
        return had_alone(*directories.storage, paths);
    }
    if (!has_lock) {
        HF_TRY_ASSIGN(const auto missing, what_to_do_without_lock(*directories.storage, paths));
        HF_TRY(directories.readers->turns().wait_in_line());
        auto lock = heap_lock::acquire(*directories.storage, paths.directory(), access_mode::read_write, missing,
                                       heap_lock::patience::enough);
        directories.readers->turns().leave_line();
        HF_TRY_ASSIGN(heap_lock mine, std::move(lock));
        directories.locks.push_back(std::move(mine));
    }
    directories.was_left_in_order = directories.readers->turns().left_by() != 0;
    directories.readers->turns().set_left_by(0);
    return refuse_readers_but(directories, paths, neighbours::turns);
}

result<void> lock_heap(heap_directories& directories, const heap_paths& paths, access_mode mode, neighbours beside) {
    HF_TRY(examine_names(*directories.storage, paths));
    HF_TRY(mode == access_mode::read_only ? lock_for_reader(directories, paths, beside)
           : beside == neighbours::turns  ? lock_by_turns(directories, paths)
                                          : lock_for_writer(directories, paths, beside));
    HF_TRY_ASSIGN(const auto of_new, directories.storage->permissions_of(paths.directory(), paths.superblock()));
    directories.storage = directories.storage->with({of_new.files | 0600U, of_new.directories | 0700U});
    return open_node_directories(directories, paths, mode);
}

}  // namespace

bool is_had_alone(persist::storage& storage, const heap_paths& paths) {
    const auto held = open_what_is_there(storage, paths);
    const auto table = held ? reader_table::open(**held, paths, reader_table::missing_file::do_without)
                            : result<std::unique_ptr<reader_table>>(nullptr);
    return table && *table != nullptr && (*table)->turns().is_had_alone();
}

result<void> refuse_readers(heap_directories& directories, const heap_paths& paths) {
    return refuse_readers_but(directories, paths, neighbours::none);
}

result<void> refuse_lost_superblock(const heap_paths& paths, std::span<const std::string> names) {
    const auto has = [names](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
    if (has("superblock") || has("superblock.new") || !(has("segment.000000") || has("objects"))) {
        return {};
    }
    return failure{failure_code::missing,
                   paths.superblock(),
                   "file",
                   "nothing",
                   "the heap's superblock",
                   "the directory has other files of a heap, which lost its superblock, or whose restore has not "
                   "finished: restore it, or remove the directory",
                   0};
}

result<std::shared_ptr<persist::storage>> open_heap_directory(persist::storage& storage, const heap_paths& paths) {
    HF_TRY_ASSIGN(auto held, open_what_is_there(storage, paths));
    HF_TRY(examine_names(*held, paths));
    return held;
}

result<std::shared_ptr<heap_directories>> open_heap_directories(persist::storage& storage, const heap_paths& paths,
                                                                access_mode mode, neighbours beside) {
    for (int attempt = 0; attempt < attempts; ++attempt) {
        auto directories = std::make_shared<heap_directories>();
        HF_TRY_ASSIGN(directories->storage, open_what_is_there(storage, paths));
        auto locked = lock_heap(*directories, paths, mode, beside);
        if (!leads_to(storage, paths.directory(), *directories->storage)) {
            continue;  // removed or moved before it was locked
        }
        if (!locked) {
            return std::move(locked).error();
        }
        return directories;
    }
    return moving(paths);
}

result<std::shared_ptr<heap_directories>> make_heap_directories(persist::storage& storage, const heap_paths& paths) {
    auto directories = std::make_shared<heap_directories>();
    HF_TRY_ASSIGN(directories->storage, storage.hold(paths.directory()));
    HF_TRY_ASSIGN(const auto directory, directories->storage->permissions_of(paths.directory(), paths.directory()));
    const std::uint32_t of_others = directory.directories & 0055U;
    directories->storage = directories->storage->with({0600U | (of_others & 0044U), 0700U | of_others});
    return directories;
}

void sign_locks(const heap_directories& directories) noexcept {
    for (const heap_lock& lock : directories.locks) {
        lock.sign();
    }
}

bool leads_to(persist::storage& storage, const std::string& path, persist::storage& held) {
    const auto there = storage.identity(path);
    const auto here = held.identity(path);
    return there && here && *there == *here;
}

result<void> make_heap_directory(persist::storage& storage, const heap_paths& paths, persist::site where) {
    auto made = storage.make_directory(paths.directory(), where);
    const int os_error = made ? 0 : made.error().os_error;
    if (os_error != ENOENT && os_error != ENOTDIR) {
        return made;
    }
    // The uppermost missing directory is why those below it are missing.
    std::string missing = paths.directory();
    std::string parent = paths.parent();
    while (parent != "." && parent != "/" && !storage.identity(parent)) {
        missing = parent;
        parent = heap_paths(missing).parent();
    }
    if (os_error == ENOENT && missing == paths.directory()) {
        return made;  // a link that leads nowhere
    }
    return failure{failure_code::not_found,
                   os_error == ENOTDIR ? parent : missing,
                   "directory",
                   os_error == ENOTDIR ? "a file" : "nothing",
                   "a directory",
                   fmt::format("the heap makes its own directory, {}, and none above it: mkdir -p {}",
                               paths.directory(), paths.parent()),
                   os_error};
}

result<void> remove_held_directory(persist::storage& storage, const std::string& path, persist::storage& held,
                                   persist::site where) {
    return leads_to(storage, path, held) ? storage.remove(path, where) : result<void>();
}

}  // namespace holdfast::segment
