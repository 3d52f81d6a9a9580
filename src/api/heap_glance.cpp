#include <algorithm>
#include <string>

#include <holdfast/heap_glance.hpp>

#include "api/lane_files.hpp"
#include "api/manager_core.hpp"
#include "segment/files/heap_directories.hpp"
#include "segment/files/lock.hpp"
#include "segment/files/reader_table.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast {

namespace {

struct sizes {
    std::uint64_t apparent = 0;
    std::uint64_t charged = 0;
    std::uint64_t logs = 0;
};

bool is_log(std::string_view name) noexcept {
    return name.starts_with(segment::log_prefix) || name.starts_with("lanes");
}

/// A file that goes meanwhile counts nothing, and neither does one that is no file.
base::result<void> add_files(persist::storage& storage, const std::string& directory, sizes& to) {
    HF_TRY_ASSIGN(const std::vector<std::string> names, storage.list(directory));
    for (const std::string& name : names) {
        const auto file = storage.open(directory + "/" + name, persist::access_mode::read_only);
        if (!file) {
            continue;
        }
        HF_TRY_ASSIGN(const std::uint64_t apparent, (*file)->size());
        HF_TRY_ASSIGN(const std::uint64_t charged, (*file)->charged());
        to.apparent += apparent;
        to.charged += charged;
        to.logs += is_log(name) ? charged : 0;
    }
    return {};
}

base::result<sizes> sizes_of(persist::storage& storage, const segment::heap_paths& paths) {
    sizes all;
    HF_TRY(add_files(storage, paths.directory(), all));
    for (std::uint32_t node = 0; node < paths.nodes(); ++node) {
        HF_TRY(add_files(storage, paths.node(node), all));
    }
    return all;
}

void describe(const segment::superblock_on_media& superblock, heap_glance& to) {
    to.uuid = segment::uuid_text(superblock.uuid);
    to.format = superblock.version;
    to.commits = superblock.sequence;
    to.created_ns = superblock.created_ns;
    to.last_commit_ns = superblock.committed_ns;
    to.recoveries = superblock.recoveries;
    to.user_bytes = superblock.frontier;
    to.maximum_size = superblock.capacity;
}

void describe(const segment::readers_glance& readers, heap_glance& to) {
    to.neighbours.writer = readers.durable == 0 ? 0 : readers.writer_pid;
    to.neighbours.newest_version = std::max(to.commits, readers.durable);
    to.neighbours.home_version = readers.durable == 0 ? to.commits : readers.home;
    for (const segment::reader_information& each : readers.readers) {
        to.neighbours.readers.push_back(
            {each.pid, !each.version.has_value(), each.version.value_or(0), each.since_ns, each.refreshed_ns});
    }
    if (readers.durable > to.commits) {
        to.commits = readers.durable;
        to.last_commit_ns = 0;
    }
    to.log_writes = readers.costs.writes;
    to.log_written_bytes = readers.costs.bytes;
    to.log_writing_ns = readers.costs.nanoseconds;
}

}  // namespace

heap_glance glance_at(const std::string& path) {
    const segment::heap_paths given(path);
    const auto held = value_or_throw(segment::open_heap_directory(persist::posix_storage(), given));
    const segment::superblock_on_media superblock = value_or_throw(heap::read_superblock(*held, given));
    const segment::heap_paths paths = given.with_nodes(superblock.nodes);
    heap_glance found;
    describe(superblock, found);
    const segment::readers_glance readers = value_or_throw(segment::reader_table::glance(*held, paths));
    describe(readers, found);
    const bool is_open =
        found.neighbours.writer != 0 || readers.is_shared || segment::heap_lock::is_signed(*held, path);
    found.use = is_open                                          ? heap_use::open
                : superblock.state == segment::heap_state::clean ? heap_use::closed
                                                                 : heap_use::crashed;
    const sizes all = value_or_throw(sizes_of(*held, paths));
    found.apparent_bytes = all.apparent;
    found.charged_bytes = all.charged;
    found.log_bytes = all.logs;
    found.available_bytes = value_or_throw(held->available(path));
    found.lanes = value_or_throw(read_lanes(superblock, *held, paths));
    return found;
}

}  // namespace holdfast
