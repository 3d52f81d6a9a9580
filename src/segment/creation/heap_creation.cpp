#include "segment/creation/heap_creation.hpp"

#include <sys/random.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "persist/posix_io.hpp"
#include "segment/files/heap_directories.hpp"
#include "segment/files/lock.hpp"
#include "segment/files/node_directories.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using persist::access_mode;

std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

base::result<void> fill_random(std::span<std::byte> bytes) {
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        return base::os_failure(errno, "getrandom", {});
    }
    return {};
}

std::uint64_t most_addresses() {
    rlimit limit{};
    const bool limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return limited ? limit.rlim_cur : maximum_reservation;
}

}  // namespace

std::uint64_t segment_size_of(const creation_options& options) {
    if (options.segment_size != 0) {
        return options.segment_size;
    }
    const std::uint64_t wanted = options.mapping.reservation;
    const std::uint64_t most = std::min(wanted != 0 ? wanted : maximum_reservation, most_addresses() / 4);
    geometry shape{default_segment_size};
    while (shape.segment_size > minimum_segment_size &&
           (shape.segment_size > most || shape.file_size() > persist::longest_file())) {
        shape.segment_size /= 2;
    }
    return shape.segment_size;
}

base::result<superblock_on_media> new_superblock(const creation_options& options) {
    superblock_on_media superblock = blank_superblock();
    HF_TRY(fill_random(std::as_writable_bytes(std::span{superblock.uuid})));
    superblock.uuid[6] = static_cast<std::uint8_t>((superblock.uuid[6] & 0x0fU) | 0x40U);  // RFC 4122, random
    superblock.uuid[8] = static_cast<std::uint8_t>((superblock.uuid[8] & 0x3fU) | 0x80U);
    while (superblock.heap_key == 0) {
        HF_TRY(fill_random(std::as_writable_bytes(std::span{&superblock.heap_key, 1})));
    }
    superblock.segment_size = segment_size_of(options);
    superblock.reservation = options.mapping.reservation;
    superblock.capacity = options.mapping.capacity;
    superblock.state = heap_state::running;
    superblock.flags =
        (options.same_address ? flag_same_address : 0) | (options.separate_cache_lines ? flag_separate_lines : 0);
    superblock.created_ns = now_ns();
    superblock.nodes = static_cast<std::uint32_t>(options.node_places.size());
    return superblock;
}

heap_creation::~heap_creation() {
    if (!superblock_.is_on_media() && (owns_files_ || made_directory_) && location_.is_mine()) {
        abandon();
    }
}

/// Accepts what a creation, copy or removal left with the file superblock.new. Anything else may be a heap whose
/// superblock was lost, or somebody else's.
base::result<void> heap_creation::check_empty(std::vector<std::string>& remains) const {
    HF_TRY_ASSIGN(remains, location_.storage().list(location_.paths().directory()));
    for (const std::string& name : remains) {
        if (name == "superblock" || !heap_paths::is_heap_file(name)) {
            return failure{failure_code::already_exists,
                           location_.paths().directory(),
                           "directory",
                           name == "superblock" ? "a heap" : fmt::format("a file {}", name),
                           "nothing, or an empty directory",
                           {},
                           0};
        }
    }
    return refuse_lost_superblock(location_.paths(), remains);
}

/// False where the directory was removed or moved meanwhile.
base::result<bool> heap_creation::try_to_take_directory() {
    made_directory_ = false;
    HF_TRY_ASSIGN(const bool there, location_.outer_storage().exists(location_.paths().directory()));
    if (!there) {
        auto made = make_heap_directory(location_.outer_storage(), location_.paths(), "create.directory");
        if (!made && made.error().code != failure_code::already_exists) {
            return std::move(made).error();
        }
        made_directory_ = made.ok();  // false where another process made it first
    }
    auto held = make_heap_directories(location_.outer_storage(), location_.paths());
    if (!held) {
        if (held.error().os_error == ENOENT) {
            return false;
        }
        if (held.error().os_error != ENOTDIR) {
            return std::move(held).error();
        }
        return failure{failure_code::already_exists,
                       location_.paths().directory(),
                       "path",
                       "a file",
                       "nothing, or an empty directory",
                       {},
                       0};
    }
    location_.set_directories(std::move(held).value());
    auto locked = lock_directory();
    if (!leads_to(location_.outer_storage(), location_.paths().directory(), location_.storage())) {
        return false;  // this may be why something failed
    }
    HF_TRY(std::move(locked));
    return true;
}

base::result<void> heap_creation::lock_directory() {
    std::vector<std::string> names;
    if (auto empty = check_empty(names); !empty) {
        // The lock file is that of the process that created the heap first.
        made_directory_ = made_directory_ && empty.error().code != failure_code::already_exists;
        return empty;
    }
    HF_TRY(location_.storage().check_place(location_.paths().directory()));
    auto lock = heap_lock::acquire(location_.storage(), location_.paths().directory(), access_mode::read_write);
    if (!lock) {
        made_directory_ = made_directory_ && lock.error().code != failure_code::locked;
        return std::move(lock).error();
    }
    location_.directories()->locks.push_back(std::move(lock).value());
    return {};
}

base::result<void> heap_creation::take_directory() {
    constexpr int attempts = 16;
    bool taken = false;
    for (int attempt = 0; attempt < attempts && !taken; ++attempt) {
        HF_TRY_ASSIGN(taken, try_to_take_directory());
    }
    if (!taken) {
        if (auto target = location_.outer_storage().link_target(location_.paths().directory());
            target && !target.value().empty()) {
            return failure{failure_code::not_found,
                           location_.paths().directory(),
                           "directory",
                           fmt::format("a symbolic link to {}, where nothing is", target.value()),
                           "a directory",
                           {},
                           0};
        }
        return failure{failure_code::locked,
                       location_.paths().directory(),
                       "directory",
                       "another one each time it is looked for",
                       "one that stays",
                       {},
                       0};
    }
    // Another process may have finished its creation before the lock was taken.
    std::vector<std::string> remains;
    if (auto empty = check_empty(remains); !empty) {
        made_directory_ = made_directory_ && empty.error().code != failure_code::already_exists;
        return empty;
    }
    HF_TRY(examine_node_directories(location_.storage(), location_.paths(), nullptr));
    owns_files_ = true;
    HF_TRY(remove_all(remains, "create.remove_remains"));
    sign_locks(*location_.directories());
    return mark();
}

/// superblock.new goes last: without it the files count as a heap that lost its superblock.
base::result<void> heap_creation::remove_all(std::span<const std::string> names, persist::site where) const {
    persist::storage& storage = location_.storage();
    HF_TRY(remove_node_directories(storage, location_.paths(), nullptr));
    bool removed = false;
    for (const std::string& name : names) {
        if (name != "lock" && name != "superblock.new" && !heap_paths::node_index(name)) {
            HF_TRY(storage.remove(location_.paths().directory() + "/" + name, where));
            removed = true;
        }
    }
    if (removed) {
        HF_TRY(storage.sync_directory(location_.paths().directory(), "create.remains.sync"));
    }
    return storage.remove(location_.paths().unfinished_superblock(), where);
}

base::result<void> heap_creation::mark() const {
    HF_TRY(location_.storage().create(location_.paths().unfinished_superblock(), "create.superblock"));
    return location_.storage().sync_directory(location_.paths().directory(), "create.superblock.sync_name");
}

base::result<void> heap_creation::make_nodes(std::span<const std::string> places) {
    if (places.empty()) {
        return {};
    }
    location_.set_nodes(superblock_.now().nodes);
    HF_TRY(make_node_directories(location_.storage(), location_.paths(), superblock_.now(), places));
    return open_node_directories(*location_.directories(), location_.paths(), access_mode::read_write);
}

base::result<void> heap_creation::make_files() {
    HF_TRY_ASSIGN(auto objects, location_.storage().create(location_.paths().objects(), "create.objects"));
    return location_.find_domain();
}

void heap_creation::abandon() noexcept {
    // Best effort: superblock.new goes last by its name, and the next create removes the rest.
    try {
        if (owns_files_) {
            static_cast<void>(remove_node_directories(location_.storage(), location_.paths(), nullptr).ok());
        }
        if (auto listed = location_.storage().list(location_.paths().directory()); listed && owns_files_) {
            std::ranges::sort(listed.value());
            for (const std::string& name : listed.value()) {
                if (heap_paths::is_heap_file(name) && !heap_paths::node_index(name)) {
                    static_cast<void>(
                        location_.storage().remove(location_.paths().directory() + "/" + name, "create.abandon").ok());
                }
            }
        }
        if (!owns_files_ && made_directory_) {
            static_cast<void>(location_.storage().remove(location_.paths().lock(), "create.abandon_lock").ok());
        }
        static_cast<void>(remove_held_directory(location_.outer_storage(), location_.paths().directory(),
                                                location_.storage(), "create.abandon_directory")
                              .ok());
    } catch (const std::bad_alloc&) {
        return;
    }
}

}  // namespace holdfast::segment
