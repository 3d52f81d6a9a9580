#include "metrics.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <holdfast/store_in_heap.hpp>

#include "commands.hpp"
#include "output.hpp"
#include "store.hpp"

namespace holdfast_cli {

namespace {

using holdfast::heap_glance;
using holdfast::heap_statistics;
using holdfast::heap_use;
using number = std::optional<double>;

constexpr double nanosecond = 1e-9;

/// Nothing: the heap has no such number.
struct metric {
    std::string_view name;
    std::string_view type;
    std::string_view help;
    std::function<number(const reading&)> value;
    /// Further labels, each with a comma before it.
    std::function<std::string(const reading&)> labels;
};

std::string label_text(std::string_view value) {
    std::string made;
    for (const char each : printable(value)) {
        if (each == '\\' || each == '"') {
            made += '\\';
        }
        made += each;
    }
    return made;
}

std::string label(std::string_view name, std::string_view value) {
    return fmt::format(",{}=\"{}\"", name, label_text(value));
}

std::string_view name_of(heap_use use) noexcept {
    switch (use) {
        case heap_use::closed: return "closed";
        case heap_use::open: return "open";
        case heap_use::crashed: return "crashed";
    }
    return "";
}

std::string state_of(const reading& of) {
    return of.store ? "store" : of.glance ? std::string(name_of(of.glance->use)) : of.reason;
}

number one_where(bool holds) { return holds ? number(1) : std::nullopt; }
number where_not_zero(std::int64_t nanoseconds) {
    return nanoseconds == 0 ? std::nullopt : number(static_cast<double>(nanoseconds) * nanosecond);
}

/// A metric whose number is a member of what the files say.
metric glanced(std::string_view name, std::string_view type, std::string_view help,
               std::function<number(const heap_glance&)> value) {
    return {name,
            type,
            help,
            [value = std::move(value)](const reading& of) { return of.glance ? value(*of.glance) : std::nullopt; },
            {}};
}

metric counted(std::string_view name, std::string_view type, std::string_view help,
               std::uint64_t heap_glance::*member) {
    return glanced(name, type, help, [member](const heap_glance& of) { return static_cast<double>(of.*member); });
}

metric of_statistics(std::string_view name, std::string_view help, std::uint64_t heap_statistics::*member) {
    return {name,
            "gauge",
            help,
            [member](const reading& of) {
                return of.statistics ? number(static_cast<double>(*of.statistics.*member)) : std::nullopt;
            },
            {}};
}

/// Of a writer in durability `commit`.
metric of_writer(std::string_view name, std::string_view help, double scale, std::uint64_t heap_glance::*member) {
    return glanced(name, "counter", help, [=](const heap_glance& of) {
        return of.neighbours.writer == 0 ? std::nullopt : number(static_cast<double>(of.*member) * scale);
    });
}

/// Of a writer in durability `atomic`.
metric of_lanes(std::string_view name, std::string_view help, double scale,
                std::uint64_t holdfast::protocol_counters::*member) {
    return glanced(name, "counter", help, [=](const heap_glance& of) {
        return of.use == heap_use::open && of.lanes.writer
                   ? number(static_cast<double>(of.lanes.writer->counters.*member) * scale)
                   : std::nullopt;
    });
}

double farthest_behind(const heap_glance& of) {
    std::uint64_t most = 0;
    for (const holdfast::reader_report& each : of.neighbours.readers) {
        const std::uint64_t newest = std::max(of.neighbours.newest_version, each.version);
        most = std::max(most, each.is_opening ? 0 : newest - each.version);
    }
    return static_cast<double>(most);
}

std::vector<metric> metrics_of_state() {
    return {
        {"holdfast_up",
         "gauge",
         "Whether the files of the heap or store could be read",
         [](const reading& of) { return of.store_file ? std::nullopt : number(of.glance || of.store ? 1 : 0); },
         {}},
        {"holdfast_state", "gauge", "1; the label says closed, open, crashed, store, or which error reading it is",
         [](const reading& of) { return one_where(!of.store_file); },
         [](const reading& of) { return label("state", state_of(of)); }},
        {"holdfast_info", "gauge", "1; the labels say which heap it is",
         [](const reading& of) { return one_where(of.glance.has_value()); },
         [](const reading& of) {
             return label("uuid", of.glance->uuid) + label("format", fmt::format("{}", of.glance->format)) +
                    label("durability", of.glance->lanes.last_durability);
         }},
        {"holdfast_replacements_total",
         "counter",
         "How often another heap took the place of this one",
         [](const reading& of) { return of.store_file ? std::nullopt : number(static_cast<double>(of.replacements)); },
         {}},
        glanced("holdfast_created_timestamp_seconds", "gauge", "When the heap was made, since 1970",
                [](const heap_glance& of) { return where_not_zero(of.created_ns); }),
        counted("holdfast_commits_total", "counter", "Commits since the heap was made", &heap_glance::commits),
        glanced("holdfast_last_commit_timestamp_seconds", "gauge",
                "When the last commit was, since 1970; of an open heap, where the superblock has it",
                [](const heap_glance& of) { return where_not_zero(of.last_commit_ns); }),
        counted("holdfast_recoveries_total", "counter", "Crashes of writers that an open has recovered",
                &heap_glance::recoveries),
        glanced("holdfast_writers", "gauge", "Processes that have the heap open for writing: 0 or 1",
                [](const heap_glance& of) { return number(of.use == heap_use::open ? 1 : 0); }),
        glanced("holdfast_readers", "gauge", "Processes that read the heap beside its writer",
                [](const heap_glance& of) { return static_cast<double>(of.neighbours.readers.size()); }),
        glanced("holdfast_reader_lag_commits", "gauge", "How far the reader that is furthest behind is behind",
                farthest_behind),
    };
}

std::vector<metric> metrics_of_space() {
    return {
        counted("holdfast_user_bytes", "gauge", "User space", &heap_glance::user_bytes),
        glanced("holdfast_maximum_bytes", "gauge", "The heap may grow to so much user space",
                [](const heap_glance& of) {
                    return of.maximum_size == 0 ? std::nullopt : number(static_cast<double>(of.maximum_size));
                }),
        counted("holdfast_apparent_bytes", "gauge", "Sum of the sizes of the files", &heap_glance::apparent_bytes),
        counted("holdfast_charged_bytes", "gauge", "What the file system charges for the files",
                &heap_glance::charged_bytes),
        counted("holdfast_log_charged_bytes", "gauge", "What of it is the log or the lanes", &heap_glance::log_bytes),
        glanced("holdfast_disk_available_bytes", "gauge", "What the file system has left",
                [](const heap_glance& of) {
                    return of.available_bytes == ~std::uint64_t{0} ? std::nullopt
                                                                   : number(static_cast<double>(of.available_bytes));
                }),
        of_statistics("holdfast_allocated_bytes", "Allocated blocks", &heap_statistics::allocated_bytes),
        of_statistics("holdfast_allocated_blocks", "Number of allocated blocks", &heap_statistics::allocated_blocks),
        of_statistics("holdfast_free_bytes", "Free space within the heap", &heap_statistics::free_bytes),
        of_statistics("holdfast_largest_free_block_bytes", "Larger allocations grow the heap",
                      &heap_statistics::largest_free_block),
        of_statistics("holdfast_log_commits", "Commits that an open would replay", &heap_statistics::log_commits),
        of_statistics("holdfast_log_bytes", "What an open would replay", &heap_statistics::log_bytes),
    };
}

std::vector<metric> metrics_of_writers() {
    using counters = holdfast::protocol_counters;
    return {
        of_writer("holdfast_log_syncs_total", "Synced writes of the log, each for all who waited", 1,
                  &heap_glance::log_writes),
        of_writer("holdfast_log_written_bytes_total", "What they wrote", 1, &heap_glance::log_written_bytes),
        of_writer("holdfast_log_sync_seconds_total", "How long they took", nanosecond, &heap_glance::log_writing_ns),
        of_lanes("holdfast_atomic_records_total", "Durable records of durability atomic", 1,
                 &counters::durable_records),
        of_lanes("holdfast_atomic_fences_total", "Waits for memory to be durable", 1, &counters::fences),
        of_lanes("holdfast_atomic_media_bytes_total", "Bytes of records, lines and checkpoints", 1,
                 &counters::media_bytes),
        of_lanes("holdfast_atomic_checkpoints_total", "Checkpoints", 1, &counters::checkpoints),
        of_lanes("holdfast_atomic_checkpoint_seconds_total", "How long they took", nanosecond,
                 &counters::checkpoint_ns),
        of_lanes("holdfast_atomic_waits_total", "Calls that waited for a full ring", 1, &counters::waits),
    };
}

/// Of a store.
metric stored(std::string_view name, std::string_view type, std::string_view help,
              std::function<std::uint64_t(const store_numbers&)> value) {
    return {name,
            type,
            help,
            [value = std::move(value)](const reading& of) {
                return of.store ? number(static_cast<double>(value(*of.store))) : std::nullopt;
            },
            {}};
}

std::vector<metric> metrics_of_stores() {
    using numbers = store_numbers;
    return {
        stored("holdfast_store_entries", "gauge", "Entries of all databases",
               [](const numbers& of) { return of.entries; }),
        stored("holdfast_store_databases", "gauge", "Databases, the unnamed one among them",
               [](const numbers& of) { return of.databases; }),
        stored("holdfast_store_used_bytes", "gauge", "Pages in use",
               [](const numbers& of) { return of.pages * of.page_bytes; }),
        stored("holdfast_store_apparent_bytes", "gauge", "Size of the file",
               [](const numbers& of) { return of.apparent_bytes; }),
        stored("holdfast_store_charged_bytes", "gauge", "What the file system charges for the file",
               [](const numbers& of) { return of.charged_bytes; }),
        stored("holdfast_store_disk_available_bytes", "gauge", "What the file system has left",
               [](const numbers& of) { return of.available_bytes; }),
        stored("holdfast_store_transactions_total", "counter", "Number of the last commit that readers see",
               [](const numbers& of) { return of.activity.last_txnid; }),
        stored("holdfast_store_unsynced_transactions", "gauge", "Commits that a loss of power may still take",
               [](const numbers& of) { return of.activity.last_txnid - of.activity.synced_txnid; }),
        stored("holdfast_store_log_bytes", "gauge", "Records of the log since the last checkpoint",
               [](const numbers& of) { return of.activity.log_bytes; }),
        stored("holdfast_store_log_room_bytes", "gauge", "The log's part of the file",
               [](const numbers& of) { return of.activity.log_room_bytes; }),
        stored("holdfast_store_readers", "gauge", "Transactions that read now",
               [](const numbers& of) { return std::uint64_t{of.activity.readers}; }),
        stored("holdfast_store_reader_lag_transactions", "gauge", "How far the oldest of them is behind",
               [](const numbers& of) { return of.activity.last_txnid - of.activity.oldest_txnid; }),
    };
}

/// Of a store whose heap is not open.
metric of_file(std::string_view name, std::string_view type, std::string_view help,
               std::uint64_t store_file_glance::*member) {
    return {name, type, help,
            [member](const reading& of) {
                return of.store_file ? number(static_cast<double>(*of.store_file.*member)) : std::nullopt;
            },
            [](const reading& of) { return label("file", of.store_file->file); }};
}

std::vector<metric> metrics_of_store_files() {
    using glance = store_file_glance;
    return {
        of_file("holdfast_store_file_apparent_bytes", "gauge", "Size of the file of a store in a heap",
                &glance::apparent_bytes),
        of_file("holdfast_store_file_charged_bytes", "gauge", "What the file system charges for it",
                &glance::charged_bytes),
        of_file("holdfast_store_file_checkpoint", "gauge", "Number of the last checkpoint; a recovery may go back",
                &glance::checkpoints),
        of_file("holdfast_store_file_transaction", "gauge", "Last transaction of the last checkpoint",
                &glance::transactions),
        of_file("holdfast_store_file_entries", "gauge", "Entries of the unnamed database as of the last checkpoint",
                &glance::entries),
        of_file("holdfast_store_file_log_room_bytes", "gauge", "The log's part of the file", &glance::log_room_bytes),
    };
}

const std::vector<metric>& all_metrics() {
    static const std::vector<metric> all = [] {
        std::vector<metric> made = metrics_of_state();
        for (const auto& more :
             {metrics_of_space(), metrics_of_writers(), metrics_of_stores(), metrics_of_store_files()}) {
            made.insert(made.end(), more.begin(), more.end());
        }
        return made;
    }();
    return all;
}

reading inspect_store(holdfast::manager& heap, const std::string& path, const std::string& name) {
    reading made;
    made.heap = path;
    made.name_in_heap = name;
    try {
        const holdfast::heap_store opened(heap, name);
        made.store = numbers_of_store(opened.native(), path);
    } catch (const std::exception& what) {  // of a call of the store, or of the system
        made.reason = "store_error";
        made.message = fmt::format("{}: the store {}: {}", path, name, what.what());
    }
    return made;
}

/// Also what takes the time of a look at every block, and the stores that lie in it. Where a writer keeps readers out,
/// there is less.
reading inspect_with_stores(const std::string& path, std::vector<reading>& stores) {
    reading made = inspect(path);
    if (made.glance) {
        try {
            holdfast::manager opened(holdfast::open_read_only, path, to_examine());
            made.statistics = opened.statistics();
            for (const std::string& name : holdfast::stores_of(opened)) {
                stores.push_back(inspect_store(opened, path, name));
            }
        } catch (const holdfast::error& what) {
            made.message = what.what();
            if (what.reason() != holdfast::errc::locked) {
                made.reason = holdfast::make_error_code(what.reason()).message();
                made.glance.reset();
            }
        }
    }
    return made;
}

}  // namespace

reading inspect(const std::string& heap) {
    reading made;
    made.heap = heap;
    if (is_store(heap)) {
        try {
            made.store = numbers_of_store(heap);
        } catch (const std::exception& what) {  // of a call of the store, or of the system
            made.reason = "store_error";
            made.message = heap + ": " + what.what();
        }
        return made;
    }
    try {
        made.glance = holdfast::glance_at(heap);
    } catch (const holdfast::error& what) {
        made.reason = holdfast::make_error_code(what.reason()).message();
        made.message = what.what();
    }
    return made;
}

std::vector<reading> inspect_store_files(const std::string& heap) {
    std::vector<reading> all;
    for (store_file_glance& each : glance_at_store_files(heap)) {
        reading& made = all.emplace_back();
        made.heap = heap;
        made.store_file = std::move(each);
    }
    return all;
}

std::string prometheus_text(const std::vector<reading>& all) {
    std::string text;
    for (const metric& of : all_metrics()) {
        std::string lines;
        for (const reading& each : all) {
            if (const number value = of.value(each)) {
                fmt::format_to(std::back_inserter(lines), "{}{{heap=\"{}\"{}{}}} {}\n", of.name, label_text(each.heap),
                               each.name_in_heap.empty() ? "" : label("store", each.name_in_heap),
                               of.labels ? of.labels(each) : "", *value);
            }
        }
        if (!lines.empty()) {
            fmt::format_to(std::back_inserter(text), "# HELP {} {}.\n# TYPE {} {}\n{}", of.name, of.help, of.name,
                           of.type, lines);
        }
    }
    return text;
}

std::vector<std::string> each_once(const std::vector<std::string>& heaps) {
    std::vector<std::string> kept;
    std::set<std::string> labels;
    for (const std::string& each : heaps) {
        if (labels.insert(label_text(each)).second) {
            kept.push_back(each);
        }
    }
    return kept;
}

int metrics(const std::vector<std::string>& heaps) {
    std::vector<reading> all;
    for (const std::string& each : each_once(heaps)) {
        std::vector<reading> stores;
        all.push_back(inspect_with_stores(each, stores));
        std::ranges::move(stores, std::back_inserter(all));
    }
    bool are_readable = true;
    for (const reading& each : all) {
        if (!each.message.empty()) {
            fmt::print(stderr, "holdfast: {}\n", printable(each.message));
        }
        are_readable = are_readable && (each.glance || each.store);
    }
    fmt::print("{}", prometheus_text(all));
    return are_readable ? exit_sound : exit_failed;
}

}  // namespace holdfast_cli
