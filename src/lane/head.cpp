#include "lane/head.hpp"

#include <cstring>
#include <string>

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

base::result<std::uint64_t> in_force(std::span<const sealed_number_on_media, sealed_copies> copies, sealed_kind kind,
                                     std::uint64_t heap_key) {
    const std::size_t found = copy_in_force(copies, kind, heap_key);
    if (found == sealed_copies) {
        return corrupt(kind == sealed_kind::checkpoint_time ? "time of the last checkpoint" : "number of lanes",
                       "no copy whose seal fits", "at least one");
    }
    return copies[found].number;
}

}  // namespace

sealed_number_on_media sealed(std::uint64_t number, sealed_kind kind, std::uint64_t heap_key) noexcept {
    // A copy of one number must not count as the other.
    const std::uint64_t seed = kind == sealed_kind::checkpoint_time ? heap_key : ~heap_key;
    return {number, XXH3_64bits_withSeed(&number, sizeof number, seed)};
}

bool is_sealed(const sealed_number_on_media& copy, sealed_kind kind, std::uint64_t heap_key) noexcept {
    return copy.seal == sealed(copy.number, kind, heap_key).seal;
}

lanes_head_on_media new_head(std::uint64_t checkpoint_time, std::uint64_t lane_count, std::uint64_t heap_key) noexcept {
    return {{sealed(checkpoint_time, sealed_kind::checkpoint_time, heap_key), {}},
            {sealed(lane_count, sealed_kind::lane_count, heap_key), {}}};
}

std::size_t copy_in_force(std::span<const sealed_number_on_media, sealed_copies> copies, sealed_kind kind,
                          std::uint64_t heap_key) noexcept {
    std::size_t found = sealed_copies;
    for (std::size_t i = 0; i < sealed_copies; ++i) {
        // LANE-19.
        if (is_sealed(copies[i], kind, heap_key) &&
            (found == sealed_copies || copies[i].number > copies[found].number)) {
            found = i;
        }
    }
    return found;
}

base::result<std::uint64_t> read_checkpoint_time(std::span<const std::byte> lanes, std::uint64_t heap_key) {
    HF_TRY_ASSIGN(const lanes_head_on_media head, read_head(lanes));
    HF_TRY_ASSIGN(const std::uint64_t time, in_force(head.checkpoint_times, sealed_kind::checkpoint_time, heap_key));
    // LANE-27.
    if (time > largest_number) {
        return corrupt("time of the last checkpoint", fmt::format("{:#x}", time),
                       fmt::format("at most {:#x}", largest_number));
    }
    return time;
}

base::result<std::uint64_t> read_lane_count(std::span<const std::byte> lanes, std::uint64_t file_size,
                                            std::uint64_t slots, std::uint64_t heap_key) {
    HF_TRY_ASSIGN(const lanes_head_on_media head, read_head(lanes));
    HF_TRY_ASSIGN(const std::uint64_t count, in_force(head.lane_counts, sealed_kind::lane_count, heap_key));
    if (count == 0 || count > maximum_lanes) {
        return corrupt("number of lanes", fmt::format("{}", count), fmt::format("1 to {}", maximum_lanes));
    }
    // LANE-25.
    if (file_size < lanes_file_size(count, slots) && !HF_MUTANT("replay.lane_count")) {
        return corrupt("size of the lanes", fmt::format("{}", file_size),
                       fmt::format("at least {}, for {} lanes", lanes_file_size(count, slots), count));
    }
    return count;
}

}  // namespace holdfast::lane
