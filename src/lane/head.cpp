#include "lane/head.hpp"

#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <xxhash.h>

namespace holdfast::lane {

base::failure corrupt(std::string field, std::string found, std::string expected) {
    base::failure what;
    what.code = base::failure_code::corrupt;
    what.field = std::move(field);
    what.found = std::move(found);
    what.expected = std::move(expected);
    return what;
}

namespace {

base::result<lanes_head_on_media> read_head(std::span<const std::byte> lanes) {
    lanes_head_on_media head;
    if (lanes.size() < lanes_at) {
        return corrupt("size of the lanes", fmt::format("{}", lanes.size()), fmt::format("at least {}", lanes_at));
    }
    std::memcpy(&head, lanes.data(), sizeof head);
    return head;
}

template <class Value>
base::result<Value> in_force(const copies_on_media<Value>& copies, std::string_view name, std::uint64_t heap_key) {
    const std::size_t found = copy_in_force(copies, heap_key);
    if (found == sealed_copies) {
        return corrupt(std::string(name), "no copy whose seal fits", "at least one");
    }
    return copies[found].value;
}

}  // namespace

// A copy of one kind must not count as the other: the seeds differ.
sealed_on_media<std::uint64_t> sealed(std::uint64_t lane_count, std::uint64_t heap_key) noexcept {
    return {lane_count, XXH3_64bits_withSeed(&lane_count, sizeof lane_count, ~heap_key)};
}

sealed_on_media<checkpoint_on_media> sealed(const checkpoint_on_media& checkpoint, std::uint64_t heap_key) noexcept {
    return {checkpoint, XXH3_64bits_withSeed(&checkpoint, sizeof checkpoint, heap_key)};
}

lanes_head_on_media new_head(const checkpoint_on_media& checkpoint, std::uint64_t lane_count,
                             std::uint64_t heap_key) noexcept {
    return {{sealed(checkpoint, heap_key), {}}, {sealed(lane_count, heap_key), {}}};
}

base::result<checkpoint_on_media> read_checkpoint(std::span<const std::byte> lanes, std::uint64_t heap_key) {
    HF_TRY_ASSIGN(const lanes_head_on_media head, read_head(lanes));
    HF_TRY_ASSIGN(const checkpoint_on_media found, in_force(head.checkpoints, "time of the last checkpoint", heap_key));
    // LANE-27.
    if (found.time > largest_number) {
        return corrupt("time of the last checkpoint", fmt::format("{:#x}", found.time),
                       fmt::format("at most {:#x}", largest_number));
    }
    return found;
}

base::result<std::uint64_t> read_lane_count(std::span<const std::byte> lanes, std::uint64_t file_size,
                                            std::uint64_t slots, record_order order, std::uint64_t heap_key) {
    HF_TRY_ASSIGN(const lanes_head_on_media head, read_head(lanes));
    HF_TRY_ASSIGN(const std::uint64_t count, in_force(head.lane_counts, "number of lanes", heap_key));
    const std::uint64_t least = order == record_order::logged ? 0 : 1;
    if (count < least || count > maximum_lanes) {
        return corrupt("number of lanes", fmt::format("{}", count), fmt::format("{} to {}", least, maximum_lanes));
    }
    // LANE-25.
    if (file_size < lanes_file_size(count, slots)) {
        return corrupt("size of the lanes", fmt::format("{}", file_size),
                       fmt::format("at least {}, for {} lanes", lanes_file_size(count, slots), count));
    }
    return count;
}

}  // namespace holdfast::lane
