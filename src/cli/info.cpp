#include <unistd.h>

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <holdfast/manager.hpp>
#include <holdfast/store_in_heap.hpp>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "lanes.hpp"
#include "output.hpp"
#include "space.hpp"

namespace holdfast_cli {

namespace {

/// The state of the heap that this open found on media.
std::string state_of(const holdfast::heap_statistics& numbers, const holdfast::lane_information& lanes) {
    if (!numbers.recovered) {
        return "clean";
    }
    if (lanes.pending) {
        return "crashed, records of calls wait in the lanes";
    }
    return numbers.rolled_forward
               ? fmt::format("crashed, {} commit{} in the log ({} bytes) to be replayed", numbers.log_commits,
                             numbers.log_commits == 1 ? "" : "s", numbers.log_bytes)
               : "crashed";
}

std::string writer_text(const holdfast::neighbours_report& others) {
    return fmt::format("writer, process {}", others.writer);
}

/// Without this command itself.
json readers_as_json(const holdfast::neighbours_report& others) {
    json all = json::array();
    for (const holdfast::reader_report& each : others.readers) {
        if (each.process != static_cast<std::uint64_t>(::getpid())) {
            all.push_back({{"process", each.process},
                           {"version", each.is_opening ? json() : json(each.version)},
                           {"behind", each.is_opening ? json() : json(others.newest_version - each.version)},
                           {"since", time_text(each.since_ns)},
                           {"refreshed", time_text(each.refreshed_ns)}});
        }
    }
    return all;
}

void print_readers(const holdfast::neighbours_report& others) {
    for (const holdfast::reader_report& each : others.readers) {
        if (each.process != static_cast<std::uint64_t>(::getpid())) {
            print_line("reader", each.is_opening
                                     ? fmt::format("process {}, opening the heap", each.process)
                                     : fmt::format("process {}, commit {}, {} behind, since {}, refreshed {}",
                                                   each.process, each.version, others.newest_version - each.version,
                                                   time_text(each.since_ns), time_text(each.refreshed_ns)));
        }
    }
}

json as_json(const holdfast::manager& heap, const holdfast::heap_statistics& numbers) {
    const holdfast::lane_information lanes = heap.lanes();
    json object;
    object["path"] = heap.path();
    object["uuid"] = heap.get_uuid();
    object["format_version"] = heap.get_version();
    object["description"] = heap.get_description();
    const holdfast::neighbours_report others = heap.neighbours();
    object["open"] = others.writer != 0;
    if (others.writer != 0) {
        object["holder"] = writer_text(others);
    }
    object["readers"] = readers_as_json(others);
    object["domain"] = heap.domain();
    object["durability"] = last_durability(lanes);
    object["search_for_changes"] = holdfast::manager::search_for_changes();
    object["state"] = numbers.recovered ? "crashed" : "clean";
    object["log"] = {{"commits", numbers.log_commits}, {"bytes", numbers.log_bytes}};
    object["lanes"] = as_json_object(lanes);
    object["recovery"] = recovery_of(heap);
    object["recoveries"] = numbers.recoveries;
    object["created"] = time_text(numbers.created_ns);
    object["created_ns"] = numbers.created_ns;
    object["last_commit"] = {{"number", numbers.commit_sequence},
                             {"time", time_text(numbers.last_commit_ns)},
                             {"time_ns", numbers.last_commit_ns}};
    object["bytes"] = {{"apparent", numbers.apparent_bytes},
                       {"on_disk", numbers.charged_bytes},
                       {"user", numbers.user_bytes},
                       {"allocated", numbers.allocated_bytes},
                       {"free", numbers.free_bytes},
                       {"largest_free_block", numbers.largest_free_block},
                       {"reserved_addresses", numbers.reserved_address_space}};
    object["allocated_blocks"] = numbers.allocated_blocks;
    object["segments"] = numbers.segments;
    object["slabs"] = numbers.slabs;
    object["extents"] = numbers.extents;
    object["segment_size"] = numbers.segment_size;
    object["node_directories"] = heap.node_directories();
    object["separate_cache_lines"] = heap.separates_cache_lines();
    object["space"] = as_json_object(space_of(heap));
    object["objects"] = {
        {"named", numbers.named_objects}, {"unique", numbers.unique_objects}, {"anonymous", numbers.anonymous_objects}};
    object["stores"] = holdfast::stores_of(heap);
    return object;
}

void print_text(const holdfast::manager& heap, const holdfast::heap_statistics& numbers) {
    print_line("heap", printable(heap.path()));
    if (const std::string description = heap.get_description(); !description.empty()) {
        print_line("description", printable(description));
    }
    print_line("uuid", heap.get_uuid());
    print_line("format version", heap.get_version());
    print_line("domain", heap.domain());
    const holdfast::lane_information lanes = heap.lanes();
    print_line("durability", last_durability(lanes));
    print_line("changes found by", holdfast::manager::search_for_changes());
    const holdfast::neighbours_report others = heap.neighbours();
    print_line("state", others.writer != 0 ? "open: " + writer_text(others) : state_of(numbers, lanes));
    print_readers(others);
    print_lanes(lanes);
    print_recovery(heap);
    print_line("created", time_text(numbers.created_ns));
    print_line("last commit", fmt::format("number {}, {}", numbers.commit_sequence, time_text(numbers.last_commit_ns)));
    print_line("recoveries", fmt::format("{}", numbers.recoveries));
    print_line("files, apparent", size_text(numbers.apparent_bytes));
    print_line("files, on disk", size_text(numbers.charged_bytes));
    print_line("user space", fmt::format("{} in {} segment{}", size_text(numbers.user_bytes), numbers.segments,
                                         numbers.segments == 1 ? "" : "s"));
    const std::vector<std::string> nodes = heap.node_directories();
    for (std::size_t node = 0; node < nodes.size(); ++node) {
        print_line(fmt::format("segments, node {}", node), printable(nodes[node]));
    }
    if (heap.separates_cache_lines()) {
        print_line("cache lines", "separate: no two blocks share one");
    }
    print_line("allocated", fmt::format("{} in {} block{} ({} slabs, {} extents)", size_text(numbers.allocated_bytes),
                                        numbers.allocated_blocks, numbers.allocated_blocks == 1 ? "" : "s",
                                        numbers.slabs, numbers.extents));
    print_line("free", size_text(numbers.free_bytes));
    print_space(space_of(heap));
    print_line("objects", fmt::format("{} named, {} unique, {} anonymous", numbers.named_objects,
                                      numbers.unique_objects, numbers.anonymous_objects));
    for (const std::string& name : holdfast::stores_of(heap)) {
        print_line("store", printable(name));
    }
}

/// For a heap that a writer has open: what its superblock and its lanes say.
int describe_open_heap(const arguments& given, const holdfast::error& locked) {
    const std::string uuid = holdfast::manager::get_uuid(given.heap);
    const std::string version = holdfast::manager::get_version(given.heap);
    const holdfast::lane_information lanes = holdfast::manager::lanes(given.heap);
    if (given.json) {
        json object;
        object["path"] = given.heap;
        object["uuid"] = uuid;
        object["format_version"] = version;
        object["open"] = true;
        object["holder"] = locked.found();
        object["durability"] = last_durability(lanes);
        object["lanes"] = as_json_object(lanes);
        print(object);
    } else {
        print_line("heap", printable(given.heap));
        print_line("uuid", uuid);
        print_line("format version", version);
        print_line("durability", last_durability(lanes));
        print_line("state", fmt::format("open: {}", printable(locked.found())));
        print_lanes(lanes);
    }
    return exit_sound;
}

}  // namespace

int info(const arguments& given) {
    try {
        const holdfast::manager heap(holdfast::open_read_only, given.heap, to_examine());
        const holdfast::heap_statistics numbers = heap.statistics();
        if (given.json) {
            print(as_json(heap, numbers));
        } else {
            print_text(heap, numbers);
        }
        return exit_sound;
    } catch (const holdfast::error& what) {
        if (what.reason() == holdfast::errc::locked) {
            return describe_open_heap(given, what);
        }
        throw;
    }
}

}  // namespace holdfast_cli
