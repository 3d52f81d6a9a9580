#include "lane/head.hpp"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <xxhash.h>

#include "lane/record.hpp"

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

namespace {

std::uint64_t seal_of(const writer_counters_on_media& block, std::uint64_t heap_key) noexcept {
    // No record has this seed.
    const std::uint64_t seed = seed_of(heap_key, block.incarnation, nowhere);
    const std::uint64_t checksum = XXH3_64bits_withSeed(&block, offsetof(writer_counters_on_media, seal), seed);
    return checksum == 0 ? 1 : checksum;
}

void store(std::uint64_t& word, std::uint64_t value) noexcept {
    std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_release);
}

}  // namespace

void store_writer_counters(writer_counters_on_media& to, std::uint64_t heap_key, std::uint64_t incarnation,
                           const lane_statistics& counters) noexcept {
    const std::uint64_t before = std::atomic_ref<std::uint64_t>(to.generation).load(std::memory_order_relaxed);
    writer_counters_on_media made{
        (before | 1U) + 1,
        incarnation,
        static_cast<std::uint64_t>(::getpid()),
        {counters.records, counters.fences, counters.flushed_lines, counters.reflushes, counters.media_bytes,
         counters.checkpoints, counters.checkpoint_ns, counters.longest_checkpoint_ns, counters.waits, counters.lanes},
        0};
    made.seal = seal_of(made, heap_key);
    store(to.generation, before | 1U);
    store(to.incarnation, made.incarnation);
    store(to.process, made.process);
    for (std::size_t i = 0; i < std::size(made.counters); ++i) {
        store(to.counters[i], made.counters[i]);
    }
    store(to.seal, made.seal);
    store(to.generation, made.generation);
}

std::optional<writer_counters> read_writer_counters(std::span<const std::byte> page, std::uint64_t heap_key,
                                                    std::uint64_t incarnation) {
    writer_counters_on_media block;
    if (page.size() < writer_counters_at + sizeof block) {
        return std::nullopt;
    }
    std::memcpy(&block, page.data() + writer_counters_at, sizeof block);
    if (block.generation % 2 != 0 || block.incarnation != incarnation || block.process == 0 ||
        block.seal != seal_of(block, heap_key)) {
        return std::nullopt;
    }
    const std::uint64_t* const in = block.counters;
    return writer_counters{block.process, {in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7], in[8], in[9]}};
}

}  // namespace holdfast::lane
