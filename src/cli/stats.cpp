#include <bit>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "lanes.hpp"
#include "output.hpp"

namespace holdfast_cli {

namespace {

struct block_group {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
};

/// Blocks above 32 KiB by the next power of two.
std::map<std::uint64_t, block_group> groups_of(const holdfast::manager& heap) {
    constexpr std::uint64_t large = 32768;
    std::map<std::uint64_t, block_group> groups;
    heap.for_each_block([&groups](const holdfast::block_info& each) {
        block_group& group = groups[each.size <= large ? each.size : std::bit_ceil(std::uint64_t{each.size})];
        ++group.blocks;
        group.bytes += each.size;
    });
    return groups;
}

std::vector<std::pair<std::string_view, std::uint64_t>> numbers_of(const holdfast::heap_statistics& numbers) {
    return {{"apparent_bytes", numbers.apparent_bytes},
            {"charged_bytes", numbers.charged_bytes},
            {"user_bytes", numbers.user_bytes},
            {"allocated_bytes", numbers.allocated_bytes},
            {"free_bytes", numbers.free_bytes},
            {"largest_free_block", numbers.largest_free_block},
            {"allocated_blocks", numbers.allocated_blocks},
            {"segments", numbers.segments},
            {"slabs", numbers.slabs},
            {"extents", numbers.extents},
            {"named_objects", numbers.named_objects},
            {"unique_objects", numbers.unique_objects},
            {"anonymous_objects", numbers.anonymous_objects},
            {"commits", numbers.commit_sequence},
            {"recoveries", numbers.recoveries}};
}

void print_text(const holdfast::manager& heap) {
    const holdfast::lane_information lanes = heap.lanes();
    print_line("heap", printable(heap.path()));
    for (const auto& [name, value] : numbers_of(heap.statistics())) {
        print_line(name, fmt::format("{}", value));
    }
    print_line("durability", last_durability(lanes));
    print_lanes(lanes);
    print_recovery(heap);
    for (const auto& [size, group] : groups_of(heap)) {
        print_line(fmt::format("blocks <= {}", size), fmt::format("{}, {} bytes", group.blocks, group.bytes));
    }
}

json as_json(const holdfast::manager& heap) {
    const holdfast::lane_information lanes = heap.lanes();
    json object;
    object["path"] = heap.path();
    object["open"] = false;
    for (const auto& [name, value] : numbers_of(heap.statistics())) {
        object[std::string(name)] = value;
    }
    object["blocks"] = json::array();
    for (const auto& [size, group] : groups_of(heap)) {
        object["blocks"].push_back({{"up_to", size}, {"count", group.blocks}, {"bytes", group.bytes}});
    }
    object["durability"] = last_durability(lanes);
    object["lanes"] = as_json_object(lanes);
    object["recovery"] = recovery_of(heap);
    object["counters"] = nullptr;  // those of a writer, which this heap does not have
    return object;
}

/// Most numbers of an open heap are in its writer's memory; its lanes have the counters of the protocol.
int print_open_heap(const arguments& given, const holdfast::error& locked) {
    const holdfast::lane_information lanes = holdfast::manager::lanes(given.heap);
    if (given.json) {
        json object;
        object["path"] = given.heap;
        object["open"] = true;
        object["holder"] = locked.found();
        object["durability"] = last_durability(lanes);
        object["lanes"] = as_json_object(lanes);
        object["counters"] = counters_of(lanes);
        print(object);
    } else {
        print_line("heap", printable(given.heap));
        print_line("state", fmt::format("open: {}", locked.found()));
        print_line("durability", last_durability(lanes));
        print_lanes(lanes);
        print_counters(lanes);
    }
    return exit_sound;
}

}  // namespace

int stats(const arguments& given) {
    try {
        const holdfast::manager heap(holdfast::open_read_only, given.heap);
        if (given.json) {
            print(as_json(heap));
        } else {
            print_text(heap);
        }
        return exit_sound;
    } catch (const holdfast::error& what) {
        if (what.reason() == holdfast::errc::locked) {
            return print_open_heap(given, what);
        }
        throw;
    }
}

}  // namespace holdfast_cli
