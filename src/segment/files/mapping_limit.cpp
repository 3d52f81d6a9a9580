#include "segment/files/mapping_limit.hpp"

#include <algorithm>
#include <charconv>
#include <span>

#include <fmt/format.h>

#include "segment/files/kernel_file.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;

constexpr const char* mapping_limit_path = "/proc/sys/vm/max_map_count";

/// 0 where it cannot be read.
std::uint64_t read_number(const char* path) noexcept {
    std::uint64_t number = 0;
    read_parts(path, [&number](std::span<const char> text) {
        static_cast<void>(std::from_chars(text.data(), text.data() + text.size(), number));
    });
    return number;
}

std::uint64_t mappings_of_this_process() noexcept {
    std::uint64_t lines = 0;
    read_parts("/proc/self/maps", [&lines](std::span<const char> text) {
        lines += static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
    });
    return lines;
}

std::uint64_t most_mappings() noexcept {
    constexpr std::uint64_t usual_limit = 65'530;
    const std::uint64_t limit = read_number(mapping_limit_path);
    return limit == 0 ? usual_limit : limit;
}

}  // namespace

/// Each range is two mappings, and half of them are for the program and the growth of heaps.
std::uint64_t most_mapped_ranges() noexcept { return most_mappings() / 4; }

bool half_of_mappings_in_use() noexcept { return mappings_of_this_process() >= most_mappings() / 2; }

base::result<void> check_mappings(std::uint64_t before, std::uint64_t after) {
    constexpr std::uint64_t few = 10'000;
    if (2 * after < few) {
        return {};
    }
    constexpr std::uint64_t spare = 64;
    const std::uint64_t limit = read_number(mapping_limit_path);
    const std::uint64_t segments = after - before;
    const std::uint64_t added = 2 * segments + 1;
    const std::uint64_t now = limit == 0 ? 0 : mappings_of_this_process();
    if (now + added + spare <= limit || limit == 0) {
        return {};
    }
    return failure{failure_code::limit,
                   mapping_limit_path,
                   "mappings of a process",
                   fmt::format("{} in use, {} more for {} segments", now, added, segments),
                   fmt::format("at most {}, {} of them spare", limit, spare),
                   "create heaps of this size with larger segments (segment_size), or raise vm.max_map_count",
                   0};
}

}  // namespace holdfast::segment
