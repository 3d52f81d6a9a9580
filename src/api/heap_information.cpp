#include <algorithm>
#include <mutex>
#include <optional>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "api/lane_files.hpp"
#include "api/manager_core.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast {

namespace {

using inner_kind = segment::extent_kind;

constexpr bool same(extent_kind a, inner_kind b) { return static_cast<unsigned>(a) == static_cast<unsigned>(b); }
static_assert(same(extent_kind::free, inner_kind::free) && same(extent_kind::block, inner_kind::used));
static_assert(same(extent_kind::slab, inner_kind::slab) && same(extent_kind::roots, inner_kind::roots));
static_assert(same(extent_kind::reserved, inner_kind::reserved));

}  // namespace

bool heap_information::is_open() const noexcept { return handle().open_core() != nullptr; }

bool heap_information::read_only() const noexcept {
    const detail::manager_core* const heap = handle().open_core();
    return heap != nullptr && heap->engine().read_only();
}

holdfast::durability heap_information::durability() const noexcept {
    const detail::manager_core* const heap = handle().open_core();
    if (heap == nullptr || heap->is_shared()) {  // another thread may have the turn
        return holdfast::durability::commit;
    }
    return static_cast<holdfast::durability>(heap->engine().durability());
}

const std::string& heap_information::path() const noexcept { return handle().path(); }

bool heap_information::check_sanity() const { return check(false).empty(); }

std::vector<std::string> heap_information::check(bool pages) const {
    std::optional<detail::plain_transactions::pause> turn;
    if (core().is_shared() && !core().plain().is_mine()) {
        turn.emplace(core().plain(), "check");
    }
    const std::lock_guard guard(core().engine().object_mutex());
    return core().engine().check(pages);
}

heap_information::page_comparison heap_information::last_comparison() const {
    const std::lock_guard guard(core().engine().object_mutex());
    const segment::page_comparison last = core().engine().inspection().last_comparison();
    return {last.compared, last.without_checksum};
}

heap_statistics heap_information::statistics() const {
    heap::engine& engine = core().engine();
    const heap::engine_statistics inner = value_or_throw(engine.statistics());
    const segment::superblock_on_media& superblock = engine.files().superblock();
    heap_statistics numbers;
    numbers.reserved_address_space = inner.reservation;
    numbers.user_bytes = inner.user_bytes;
    numbers.allocated_bytes = inner.allocated_bytes;
    numbers.allocated_blocks = inner.allocated_blocks;
    numbers.free_bytes = inner.user_bytes - inner.allocated_bytes;
    numbers.largest_free_block = inner.largest_free_block;
    numbers.apparent_bytes = inner.files.apparent_bytes;
    numbers.charged_bytes = inner.files.charged_bytes;
    numbers.segments = inner.files.segments;
    numbers.segment_size = engine.files().view().shape().segment_size;
    numbers.slabs = inner.slabs;
    numbers.extents = inner.extents;
    numbers.guard_ranges = inner.guard_ranges;
    numbers.named_objects = core().count(instance_kind::named);
    numbers.unique_objects = core().count(instance_kind::unique);
    numbers.anonymous_objects = core().count(instance_kind::anonymous);
    numbers.maximum_size = superblock.capacity;
    numbers.watched_bytes = engine.files().commits().watched_bytes();
    if (!engine.read_only() && !engine.files().shared()) {
        numbers.private_bytes = value_or_throw(engine.files().commits().find_private()).bytes;
    }
    numbers.commit_sequence = superblock.sequence;
    numbers.last_commit_ns = superblock.committed_ns;
    numbers.created_ns = superblock.created_ns;
    numbers.recoveries = superblock.recoveries;
    numbers.recovered = engine.files().recovered();
    numbers.rolled_forward = engine.files().replayed().commits != 0;
    numbers.log_commits = engine.files().replayed().commits;
    numbers.log_bytes = engine.files().replayed().bytes;
    return numbers;
}

std::string heap_information::get_uuid() const { return segment::uuid_text(core().engine().files().superblock().uuid); }
std::string heap_information::get_version() const {
    return fmt::format("{}", core().engine().files().superblock().version);
}
std::string heap_information::get_description() const {
    const std::lock_guard guard(core().engine().object_mutex());
    return value_or_throw(core().engine().objects().heap_description());
}
void heap_information::set_description(std::string_view description) {
    detail::refuse_read_only(core().engine(), "set_description");
    const std::lock_guard guard(core().engine().object_mutex());
    value_or_throw(core().engine().objects().describe_heap(description));
}
std::vector<std::string> heap_information::node_directories() const {
    const segment::heap_paths& paths = core().engine().files().paths();
    std::vector<std::string> directories;
    for (std::uint32_t node = 0; node < paths.nodes(); ++node) {
        directories.push_back(value_or_throw(core().engine().files().storage().location(paths.node(node))));
    }
    return directories;
}
std::string heap_information::domain() const {
    return std::string(persist::to_string(core().engine().files().domain()));
}
std::string heap_information::search_for_changes() { return segment::dirty_scanner::describe(); }
void heap_information::for_each_block(const std::function<void(const block_info&)>& each) const {
    heap::engine& engine = core().engine();
    value_or_throw(engine.files().bitmaps().admit_all());
    engine.blocks().inspect().for_each_block([&](base::heap_offset offset, std::uint64_t size, std::uint32_t type) {
        each({engine.files().view().address(offset), size, type});
    });
}

void heap_information::for_each_extent(const std::function<void(const extent_info&)>& each) const {
    value_or_throw(core().engine().inspection().for_each_extent([&each](const heap::extent_state& found) {
        extent_info info;
        info.offset = base::offset_of(found.run.start).value;
        info.bytes = base::to_bytes(found.run.length);
        info.kind = static_cast<extent_kind>(found.run.kind);
        info.block_size = found.slab.block_size;
        info.blocks = found.slab.blocks;
        info.live_blocks = found.slab.live_blocks;
        info.backed_bytes = found.backed.bytes;
        info.backed_exactly = found.backed.exact;
        each(info);
    }));
}

neighbours_report heap_information::neighbours() const {
    neighbours_report found;
    segment::heap_files& files = core().engine().files();
    found.newest_version = found.home_version = files.superblock().sequence;
    segment::reader_table* const readers = files.readers().table();
    if (readers == nullptr) {
        return found;
    }
    found.writer = readers->writer_pid();
    found.newest_version = std::max(found.newest_version, readers->durable());
    found.home_version = readers->home();
    for (const segment::reader_information& each : readers->readers()) {
        found.readers.push_back(
            {each.pid, !each.version.has_value(), each.version.value_or(0), each.since_ns, each.refreshed_ns});
    }
    return found;
}

protocol_counters heap_information::counters() const {
    heap::engine& engine = core().engine();
    if (engine.atomic() == nullptr) {
        return {};
    }
    return protocol_counters_of(engine.atomic()->lanes().statistics());
}

recovery_report heap_information::last_recovery() const {
    const lane::replay_report& report = core().engine().recovered().replayed;
    return {report.lanes, report.pending, report.replayed, report.rolled_back, report.time_ns};
}

lane_information heap_information::lanes() const {
    const segment::heap_files& files = core().engine().files();
    lane_information found = value_or_throw(read_lanes(files.superblock(), files.storage(), files.paths()));
    found.pending = found.pending && !files.location().is_writer();
    return found;
}

}  // namespace holdfast
