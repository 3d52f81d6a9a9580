// What durable transactions cost on an ordinary disk (the domain `disk`): beside one synced write of 4 KiB, with more
// and more threads, and beside LMDB, SQLite and RocksDB. Meaningless on a file system in memory.
#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <holdfast/transaction.hpp>

#include "allocators/allocation_run.hpp"
#include "command_line/command_line.hpp"
#include "disk/store.hpp"
#include "support/report.hpp"
#include "support/timing.hpp"

namespace {

using namespace holdfast;
using bench::time_of;

struct options {
    bench::common_options common;
    std::uint64_t count = 2000;
};

struct alignas(64) counter {
    std::uint64_t value = 0;
};

open_options on_disk() {
    open_options wanted;
    wanted.durability = durability::atomic;
    wanted.domain = open_options::domain_choice::disk;
    return wanted;
}

constexpr unsigned most_threads = 64;

constexpr std::array threads_of_words{1U, 2U, 8U, most_threads};
constexpr unsigned writers = 16;
constexpr std::uint64_t least_of_a_thread = 20;
constexpr std::uint64_t together = 100;  ///< transactions with one sync

/// Microseconds, by threads.
struct measurement {
    bench::samples raw;
    std::map<unsigned, bench::samples> word;
    std::map<unsigned, bench::samples> word_later;                   ///< with a sync for each `together`
    std::map<std::string, std::map<unsigned, bench::samples>> puts;  ///< by store
};

void show(bench::report& out, measurement& measured) {
    auto& [raw, word, word_later, puts] = measured;
    std::vector<bench::row> rows{{bench::label("work", "write of 4 KiB, O_DIRECT and O_DSYNC"),
                                  bench::number("us", raw.median()), bench::number("per_second", 1e6 / raw.median())}};
    for (const unsigned threads : threads_of_words) {
        rows.push_back({bench::label("work", fmt::format("transaction of 8 bytes, threads: {}", threads)),
                        bench::number("us", word[threads].median()),
                        bench::number("per_second", 1e6 / word[threads].median())});
    }
    for (auto& [threads, times] : word_later) {
        rows.push_back({bench::label("work", fmt::format("the same, a sync every {}, threads: {}", together, threads)),
                        bench::number("us", times.median()), bench::number("per_second", 1e6 / times.median())});
    }
    for (auto& [store, times] : puts) {
        for (const auto& [threads, of_them] : times) {
            rows.push_back({bench::label("work", fmt::format("record of 100 bytes, {}, threads: {}", store, threads)),
                            bench::number("us", of_them.median()),
                            bench::number("per_second", 1e6 / of_them.median())});
        }
    }
    out.table("durable on a disk; time of one, all threads together, medians", rows);
    out.goal_at_most("transaction of 8 bytes, against a write of 4 KiB", word[1].median() / raw.median(), 1.3, "times");
    out.goal_at_least("64 threads, against one", word[1].median() / word[most_threads].median(), 20, "times");
    const std::map<std::string, std::pair<double, double>> goals{
        {"LMDB", {2, 5}}, {"SQLite", {1.5, 5}}, {"RocksDB", {1, 0}}};
    for (const auto& [peer, factors] : goals) {
        if (puts.contains(peer)) {
            auto& own = puts["holdfast"];
            out.goal_at_least("record, 1 thread, against " + peer, puts[peer][1].median() / own[1].median(),
                              factors.first, "times");
            if (factors.second != 0) {
                out.goal_at_least("record, 16 threads, against " + peer,
                                  puts[peer][writers].median() / own[writers].median(), factors.second, "times");
            }
        }
    }
    if (puts.contains("RocksDB")) {
        out.goal_at_least("ordered_index, 64 threads, against RocksDB",
                          puts["RocksDB"][most_threads].median() / puts["ordered_index"][most_threads].median(), 2,
                          "times");
    }
}

int run(const options& chosen) {
    bench::report out("disk_bench", chosen.common);
    out.begin({{"count", chosen.count}, {"domain", "disk"}});
    const std::filesystem::path directory = chosen.common.directory / "disk_bench";
    std::filesystem::remove_all(directory);
    std::filesystem::create_directories(directory);
    manager heap(create_only, (directory / "words.hf").string(), on_disk());
    counter* const words = heap.construct<counter>("words")[most_threads]();
    std::vector<std::unique_ptr<disk::store>> stores;
    stores.push_back(disk::make_holdfast(directory));
    stores.push_back(disk::make_ordered_index(directory));
    for (const auto& make : std::vector<std::function<std::unique_ptr<disk::store>()>>{
             [&] { return disk::make_lmdb(directory); }, [&] { return disk::make_sqlite(directory, writers); },
             [&] { return disk::make_rocksdb(directory); }}) {
        try {
            stores.push_back(make());
        } catch (const bench::backend_unavailable& missing) {
            out.note(missing.what());
        }
    }
    measurement measured;
    auto& [raw, word, word_later, puts] = measured;
    std::uint64_t next = 0;
    for (unsigned round = 0; round < chosen.common.rounds; ++round) {
        raw.add(bench::time_of_a_write(directory, chosen.count));
        for (const unsigned threads : threads_of_words) {
            word[threads].add(
                time_of(threads, std::max<std::uint64_t>(chosen.count / threads, 50), [&](unsigned t, std::uint64_t) {
                    heap.transact([&](transaction& tx) { tx.open(words[t]).value += 1; });
                }));
        }
        for (const unsigned threads : {1U, 8U}) {
            const std::uint64_t of_a_thread = std::max(chosen.count * 10 / threads / together, std::uint64_t{1});
            word_later[threads].add(time_of(threads, of_a_thread * together, [&](unsigned t, std::uint64_t i) {
                const ticket made = heap.transact_later([&](transaction& tx) { tx.open(words[t]).value += 1; });
                if ((i + 1) % together == 0) {
                    heap.sync(made);
                }
            }));
        }
        for (const unsigned threads : {1U, writers, most_threads}) {
            for (const auto& each : stores) {
                if (threads > writers && !each->scales()) {
                    continue;
                }
                const std::uint64_t first = next;
                const std::uint64_t of_a_thread = threads > writers ? chosen.count / 4 : chosen.count / threads / 2;
                puts[each->name()][threads].add(
                    time_of(threads, std::max(of_a_thread, least_of_a_thread), [&](unsigned t, std::uint64_t i) {
                        each->put(t, (std::uint64_t{t} << 32U) + first + i, disk::record{});
                    }));
            }
            next += chosen.count;
        }
    }
    show(out, measured);
    out.checksum(words[0].value);
    stores.clear();
    heap.close();
    std::filesystem::remove_all(directory);
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    holdfast_programs::command_line app("Cost of durable transactions on a disk");
    chosen.common.declare(app);
    app.add_option("--count", chosen.count, "Transactions of a round").show_default();
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    if (chosen.common.smoke) {
        chosen.count = 50;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "disk_bench: {}\n", failure.what());
        return 1;
    }
}
