// Numbers of heaps as Prometheus reads them: its text format, version 0.0.4.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <string_view>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "commands.hpp"
#include "output.hpp"

namespace holdfast_cli {

namespace {

struct reading {
    std::string heap;
    bool is_readable = false;
    holdfast::heap_statistics numbers;
    holdfast::neighbours_report neighbours;
};

struct metric {
    std::string_view name;
    std::string_view type;
    std::string_view help;
    std::function<double(const reading&)> value;
};

constexpr double nanosecond = 1e-9;

double as_number(std::uint64_t value) { return static_cast<double>(value); }

const auto& metrics_of_readable() {
    static const std::array all{
        metric{"holdfast_charged_bytes", "gauge", "What the file system charges for the files",
               [](const reading& of) { return as_number(of.numbers.charged_bytes); }},
        metric{"holdfast_user_bytes", "gauge", "User space",
               [](const reading& of) { return as_number(of.numbers.user_bytes); }},
        metric{"holdfast_allocated_bytes", "gauge", "Allocated blocks",
               [](const reading& of) { return as_number(of.numbers.allocated_bytes); }},
        metric{"holdfast_allocated_blocks", "gauge", "Number of allocated blocks",
               [](const reading& of) { return as_number(of.numbers.allocated_blocks); }},
        metric{"holdfast_free_bytes", "gauge", "Free space within the heap",
               [](const reading& of) { return as_number(of.numbers.free_bytes); }},
        metric{"holdfast_largest_free_block_bytes", "gauge", "Larger allocations grow the heap",
               [](const reading& of) { return as_number(of.numbers.largest_free_block); }},
        metric{"holdfast_commits_total", "counter", "Commits since the heap was made",
               [](const reading& of) { return as_number(of.numbers.commit_sequence); }},
        metric{"holdfast_last_commit_timestamp_seconds", "gauge", "When the last commit was, since 1970",
               [](const reading& of) { return static_cast<double>(of.numbers.last_commit_ns) * nanosecond; }},
        metric{"holdfast_recoveries_total", "counter", "Crashes of writers that an open has recovered",
               [](const reading& of) { return as_number(of.numbers.recoveries); }},
        metric{"holdfast_log_commits", "gauge", "Commits that an open would replay",
               [](const reading& of) { return as_number(of.numbers.log_commits); }},
        metric{"holdfast_log_bytes", "gauge", "What an open would replay",
               [](const reading& of) { return as_number(of.numbers.log_bytes); }},
        metric{"holdfast_writers", "gauge", "Processes that write the heap in durability commit: 0 or 1",
               [](const reading& of) { return of.neighbours.writer != 0 ? 1.0 : 0.0; }},
        metric{"holdfast_readers", "gauge", "Processes that read the heap, but for this one",
               [](const reading& of) {
                   const auto& all_readers = of.neighbours.readers;
                   const auto own = static_cast<std::uint64_t>(::getpid());
                   return static_cast<double>(std::count_if(all_readers.begin(), all_readers.end(),
                                                            [own](const auto& each) { return each.process != own; }));
               }},
    };
    return all;
}

std::string label_of(std::string_view heap) {
    std::string made;
    for (const char each : printable(heap)) {
        if (each == '\\' || each == '"') {
            made += '\\';
        }
        made += each;
    }
    return made;
}

void print_head(const metric& of) { fmt::print("# HELP {} {}.\n# TYPE {} {}\n", of.name, of.help, of.name, of.type); }

reading read(const std::string& path) {
    reading made{.heap = path, .is_readable = false, .numbers = {}, .neighbours = {}};
    try {
        const holdfast::manager heap(holdfast::open_read_only, path, to_examine());
        made.numbers = heap.statistics();
        made.neighbours = heap.neighbours();
        made.is_readable = true;
    } catch (const holdfast::error& what) {
        fmt::print(stderr, "holdfast: {}\n", printable(what.what()));
    }
    return made;
}

}  // namespace

int metrics(const std::vector<std::string>& heaps) {
    std::vector<reading> all;
    all.reserve(heaps.size());
    bool are_readable = true;
    for (const std::string& each : heaps) {
        all.push_back(read(each));
        are_readable = are_readable && all.back().is_readable;
    }
    const metric up{"holdfast_up", "gauge", "Whether the numbers of the heap could be read",
                    [](const reading& of) { return of.is_readable ? 1.0 : 0.0; }};
    print_head(up);
    for (const reading& each : all) {
        fmt::print("{}{{heap=\"{}\"}} {}\n", up.name, label_of(each.heap), up.value(each));
    }
    for (const metric& of : metrics_of_readable()) {
        print_head(of);
        for (const reading& each : all) {
            if (each.is_readable) {
                fmt::print("{}{{heap=\"{}\"}} {}\n", of.name, label_of(each.heap), of.value(each));
            }
        }
    }
    return are_readable ? exit_sound : exit_failed;
}

}  // namespace holdfast_cli
