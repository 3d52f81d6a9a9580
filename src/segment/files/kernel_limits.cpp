#include "segment/files/kernel_limits.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/units.hpp"

namespace holdfast::segment {

namespace {

constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();

std::string text_of(const std::string& path) {
    std::string text;
    read_parts(path.c_str(), [&text](std::span<const char> part) { text.append(part.data(), part.size()); });
    return text;
}

std::optional<std::uint64_t> number(std::string_view text) noexcept {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end != text.data() ? std::optional(value) : std::nullopt;
}

/// Takes the text up to the mark off, and the mark.
std::string_view take(std::string_view& from, char mark) noexcept {
    const std::size_t end = std::min(from.find(mark), from.size());
    const std::string_view taken = from.substr(0, end);
    from.remove_prefix(std::min(end + 1, from.size()));
    return taken;
}

/// Of two numbers either of which may be unknown, as their sum is where it is too large.
std::uint64_t plus(std::uint64_t a, std::uint64_t b) noexcept { return a > unknown - b ? unknown : a + b; }
std::uint64_t minus(std::uint64_t from, std::uint64_t less) noexcept { return from - std::min(from, less); }
std::uint64_t from_kibibytes(std::uint64_t number) noexcept {
    return number > unknown / base::kibibyte ? unknown : number * base::kibibyte;
}

/// The number of the line that begins with the name and a space or colon; 0 where there is none.
std::uint64_t value_of(std::string_view lines, std::string_view name) noexcept {
    while (!lines.empty()) {
        std::string_view line = take(lines, '\n');
        if (line.starts_with(name) && line.size() > name.size() &&
            (line[name.size()] == ' ' || line[name.size()] == ':')) {
            return number(line.substr(name.size() + 1)).value_or(0);
        }
    }
    return 0;
}

/// A path in mountinfo, where the kernel writes spaces, tabs, line ends and backslashes as \040 and so on.
std::string unescaped(std::string_view text) {
    std::string path;
    while (!text.empty()) {
        unsigned code = 0;
        const char* const digits = text.data() + 1;
        const bool is_escape =
            text.front() == '\\' && text.size() >= 4 && std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3;
        path.push_back(is_escape ? static_cast<char>(code) : text.front());
        text.remove_prefix(is_escape ? 4 : 1);
    }
    return path;
}

/// A file system of control groups that is mounted, or its memory controller.
struct group_mount {
    std::string root;
    std::string place;
    bool is_unified = false;
};

std::vector<group_mount> group_mounts(const std::string& mountinfo) {
    std::vector<group_mount> found;
    for (std::string_view lines = mountinfo; !lines.empty();) {
        std::string_view line = take(lines, '\n');
        const std::size_t dash = line.find(" - ");
        if (dash == std::string_view::npos) {
            continue;
        }
        std::string_view what = line.substr(dash + 3);
        const std::string_view type = take(what, ' ');
        take(what, ' ');
        const std::string options = "," + std::string(what) + ",";
        const bool is_unified = type == "cgroup2";
        if (!is_unified && (type != "cgroup" || options.find(",memory,") == std::string::npos)) {
            continue;
        }
        take(line, ' ');
        take(line, ' ');
        take(line, ' ');
        const std::string_view root = take(line, ' ');
        found.push_back({unescaped(root), unescaped(take(line, ' ')), is_unified});
    }
    return found;
}

/// The process's group by /proc/self/cgroup; empty where it is in none.
std::string group_path(const std::string& groups, bool is_unified) {
    for (std::string_view lines = groups; !lines.empty();) {
        std::string_view line = take(lines, '\n');
        take(line, ':');
        const std::string controllers = "," + std::string(take(line, ':')) + ",";
        if (is_unified ? controllers == ",," : controllers.find(",memory,") != std::string::npos) {
            return std::string(line);
        }
    }
    return {};
}

/// No limit is "max", or in version 1 a number near 2^63.
std::uint64_t limit_of(const std::string& path) {
    constexpr std::uint64_t none = std::uint64_t{1} << 60U;
    const std::uint64_t limit = number(text_of(path)).value_or(unknown);
    return limit >= none ? unknown : limit;
}

std::uint64_t count_of(const std::string& path) { return number(text_of(path)).value_or(0); }

std::uint64_t room_in(const std::string& group, bool is_unified, std::uint64_t swap) {
    const std::uint64_t limit = limit_of(group + (is_unified ? "/memory.max" : "/memory.limit_in_bytes"));
    const std::uint64_t with_swap = is_unified ? unknown : limit_of(group + "/memory.memsw.limit_in_bytes");
    if (limit == unknown && with_swap == unknown) {
        return unknown;
    }
    const std::string numbers = text_of(group + "/memory.stat");
    const auto droppable = [&](std::string_view active, std::string_view inactive) {
        return plus(value_of(numbers, active), value_of(numbers, inactive));
    };
    if (is_unified) {
        const std::uint64_t most = limit_of(group + "/memory.swap.max");
        const std::uint64_t more = minus(most, count_of(group + "/memory.swap.current"));
        const std::uint64_t free = minus(limit, count_of(group + "/memory.current"));
        return plus(plus(free, droppable("active_file", "inactive_file")), std::min(swap, more));
    }
    const std::uint64_t cache = droppable("total_active_file", "total_inactive_file");
    const auto left = [&](std::uint64_t most, const char* in_use) {
        return most == unknown ? unknown : plus(minus(most, count_of(group + in_use)), cache);
    };
    return std::min(plus(left(limit, "/memory.usage_in_bytes"), swap), left(with_swap, "/memory.memsw.usage_in_bytes"));
}

/// The group's path below the mount, which shows the group `root` and those within it; empty, for the mount itself,
/// where it does not show this one. Else it begins with '/'.
std::string below(std::string group, const std::string& root) {
    if (root != "/") {
        const bool is_shown = group.starts_with(root) && (group.size() == root.size() || group[root.size()] == '/');
        group = is_shown ? group.substr(root.size()) : std::string();
    }
    return group.starts_with('/') ? group : std::string();
}

}  // namespace

std::uint64_t available_memory(const memory_sources& from) {
    const std::string machine = text_of(from.meminfo);
    const std::uint64_t swap = from_kibibytes(value_of(machine, "SwapFree"));
    const std::uint64_t memory = from_kibibytes(value_of(machine, "MemAvailable"));
    std::uint64_t least = memory == 0 ? unknown : plus(memory, swap);
    const std::string groups = text_of(from.groups);
    for (const group_mount& mount : group_mounts(text_of(from.mounts))) {
        // In a container the mount shows the process's own group alone.
        std::string path = below(group_path(groups, mount.is_unified), mount.root);
        for (;; path.resize(path.rfind('/'))) {
            while (path.ends_with('/')) {
                path.pop_back();
            }
            least = std::min(least, room_in(mount.place + path, mount.is_unified, swap));
            if (path.empty()) {
                break;
            }
        }
    }
    return least;
}

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
