// The store through LMDB's interface, against Debian's liblmdb: in turn, in the same directory, each run in a process
// of its own. Medians of the rounds; sizes of keys and values as in the thesis that put LMDB on a persistent heap.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command_line/command_line.hpp"
#include "store/workloads.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/random.hpp"
#include "support/report.hpp"
#include "support/samples.hpp"

namespace {

using holdfast_programs::command_line;

struct options {
    bench::common_options common;
    bench::store_sizes sizes;
    std::filesystem::path memory_directory = "/dev/shm";
    std::string lmdb = HOLDFAST_DEBIAN_LMDB;
    std::string holdfast = HOLDFAST_OWN_LMDB;
    std::vector<std::string> only;
    bool thesis = false;
};

struct peer {
    std::string name;
    std::string path;
    std::map<std::string, bench::samples> results;
};

/// Ours times as fast as LMDB, or at most so much of its size.
struct goal {
    const char* figure;
    const char* what;
    double limit;
};
constexpr std::array goals = {
    goal{"fillseq_synced", "fillseq, one put a synced transaction", 1.7},
    goal{"fillrandom_synced", "fillrandom, one put a synced transaction", 1.7},
    goal{"batches_synced", "batches of 1,000, synced", 2.0},
    goal{"fillrandom_unsynced", "fillrandom without sync, tmpfs", 1.2},
    goal{"durable_in_memory", "one put a durable transaction, tmpfs, LMDB with msync", 5.0},
    goal{"reads_1_thread", "random reads, 1 thread", 1.0},
    goal{"reads_2_threads", "random reads, 2 threads", 1.0},
    goal{"scans", "scans", 1.0},
    goal{"writers_synced", "8 writer threads, one synced put each", 4.0},
    goal{"removal_of_half", "removal of half", 1.5},
    goal{"filled_bytes", "bytes on disk after fillrandom", 0.75},
    goal{"removed_bytes", "bytes on disk after removing 90 %, settled", 0.3},
};

bool is_size(const std::string& figure) { return figure.ends_with("_bytes"); }

/// Milliseconds of one workload, in a process of its own.
nlohmann::json run_once(const options& chosen, const bench::store_workload& workload, const peer& one,
                        const std::filesystem::path& parent, bool on_persistent_memory = false) {
    const bench::workplace place(parent);
    const std::filesystem::path directory = place.path() / "store";
    std::filesystem::create_directory(directory);
    return bench::run_child(bench::ending::exits, [&](const bench::child_process& child) {
        bench::store_library library(one.path);
        library.on_persistent_memory = on_persistent_memory;
        bench::store_results found = workload.run(library, one.name == "lmdb", directory, chosen.sizes);
        if (chosen.thesis) {
            rusage spent{};
            ::getrusage(RUSAGE_SELF, &spent);
            const auto ms = [](const timeval& time) {
                return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
            };
            found["processor"] = ms(spent.ru_utime) + ms(spent.ru_stime);
        }
        child.hand_back(found);
    });
}

bool is_chosen(const options& chosen, const bench::store_workload& workload) {
    return chosen.only.empty() || std::ranges::find(chosen.only, workload.name) != chosen.only.end();
}

void measure(const options& chosen, std::vector<peer>& peers) {
    for (const bench::store_workload& workload : bench::store_workloads()) {
        if (!is_chosen(chosen, workload)) {
            continue;
        }
        const std::filesystem::path& parent = workload.in_memory ? chosen.memory_directory : chosen.common.directory;
        for (unsigned round = 0; round < chosen.common.rounds; ++round) {
            for (std::size_t i = 0; i < peers.size(); ++i) {
                // Each of them is the first in every other round.
                peer& one = peers[(i + round) % peers.size()];
                const nlohmann::json result = run_once(chosen, workload, one, parent);
                for (const auto& [figure, value] : result.items()) {
                    one.results[figure].add(value.get<double>());
                }
            }
        }
    }
}

void print(bench::report& out, const std::vector<peer>& peers) {
    std::vector<bench::row> times;
    std::vector<bench::row> sizes;
    for (const auto& [figure, ours] : peers[0].results) {
        if (figure == "checksum") {
            continue;
        }
        const bench::samples& theirs = peers[1].results.at(figure);
        const double ratio = is_size(figure) ? ours.median() / theirs.median() : theirs.median() / ours.median();
        if (is_size(figure)) {
            sizes.push_back({bench::label("size_of", figure),
                             bench::count("holdfast_kib", static_cast<std::uint64_t>(ours.median()) / 1024),
                             bench::count("lmdb_kib", static_cast<std::uint64_t>(theirs.median()) / 1024),
                             bench::number("holdfast_to_lmdb", ratio)});
        } else {
            times.push_back({bench::label("work", figure), bench::times("holdfast_ms", ours),
                             bench::times("lmdb_ms", theirs), bench::number("times_as_fast", ratio)});
        }
    }
    out.table("time", times);
    out.table("bytes on disk", sizes);
    for (const goal& wanted : goals) {
        if (!peers[0].results.contains(wanted.figure)) {
            continue;
        }
        const double ours = peers[0].results.at(wanted.figure).median();
        const double theirs = peers[1].results.at(wanted.figure).median();
        if (is_size(wanted.figure)) {
            out.goal_at_most(wanted.what, ours / theirs, wanted.limit, "of LMDB's");
        } else {
            out.goal_at_least(wanted.what, theirs / ours, wanted.limit, "times LMDB");
        }
    }
    if (peers[0].results.contains("stuck_bytes")) {
        const auto& ours = peers[0].results;
        out.goal_at_most("bytes on disk under a stuck reader, of those before",
                         ours.at("stuck_bytes").median() / ours.at("before_stuck_bytes").median(), 3.0, "times");
    }
}

/// Ours in memory, beside LMDB on the disk, as in the thesis, and beside LMDB in memory.
void run_thesis(bench::report& out, const options& chosen, const std::vector<peer>& peers) {
    struct goal_of {
        const char* name;
        double on_disk;
    };
    constexpr goal_of theirs[] = {{"mtest", 25}, {"fillseqsync", 3.7}, {"fillrandomsync", 3.7}, {"mt_bench", 31}};
    std::vector<bench::row> rows;
    std::vector<bench::row> processor;  // beside other work it says more
    for (const bench::store_workload& workload : bench::thesis_workloads()) {
        if (!is_chosen(chosen, workload)) {
            continue;
        }
        bench::samples ours;
        bench::samples ours_by_lines;
        bench::samples our_processor;
        bench::samples their_processor;
        bench::samples in_memory;
        bench::samples on_disk;
        for (unsigned round = 0; round < chosen.common.rounds; ++round) {
            const auto measured = [&](const peer& one, const std::filesystem::path& parent, bool by_lines = false) {
                return run_once(chosen, workload, one, parent, by_lines);
            };
            // Each is the first in every third round; the disk comes last, for it works on afterwards.
            nlohmann::json first;
            nlohmann::json second;
            nlohmann::json fourth;
            for (unsigned i = 0; i < 3; ++i) {
                switch ((i + round) % 3) {
                    case 0: first = measured(peers[0], chosen.memory_directory); break;
                    case 1: second = measured(peers[1], chosen.memory_directory); break;
                    default: fourth = measured(peers[0], chosen.memory_directory, true);
                }
            }
            const nlohmann::json third = measured(peers[1], chosen.common.directory);
            if (first.value("checksum", 0.0) != second.value("checksum", 0.0)) {
                throw std::runtime_error("the two libraries did not return the same items");
            }
            our_processor.add(first.at("processor").get<double>());
            their_processor.add(second.at("processor").get<double>());
            ours.add(first.at(workload.name).get<double>());
            ours_by_lines.add(fourth.at(workload.name).get<double>());
            in_memory.add(second.at(workload.name).get<double>());
            on_disk.add(third.at(workload.name).get<double>());
        }
        rows.push_back({bench::label("work", workload.name), bench::times("holdfast_memory_ms", ours),
                        bench::times("holdfast_by_lines_ms", ours_by_lines), bench::times("lmdb_memory_ms", in_memory),
                        bench::times("lmdb_disk_ms", on_disk),
                        bench::number("times_lmdb_on_disk", on_disk.median() / ours.median()),
                        bench::number("times_lmdb_in_memory", in_memory.median() / ours.median()),
                        bench::number("by_lines_times_lmdb_in_memory", in_memory.median() / ours_by_lines.median())});
        processor.push_back({bench::label("work", workload.name), bench::times("holdfast_ms", our_processor),
                             bench::times("lmdb_ms", their_processor),
                             bench::number("times_lmdb", their_processor.median() / our_processor.median())});
        for (const goal_of& goal : theirs) {
            if (goal.name == std::string(workload.name)) {
                out.goal_at_least(fmt::format("{}, in memory, LMDB on the disk", goal.name),
                                  on_disk.median() / ours.median(), goal.on_disk, "times LMDB");
                out.goal_at_least(fmt::format("{}, both in memory", goal.name), in_memory.median() / ours.median(), 1.0,
                                  "times LMDB");
            }
        }
    }
    out.table("the thesis' workloads", rows);
    out.table("processor time of their processes, in memory", processor);
}

int run(options chosen) {
    if (chosen.common.smoke) {
        chosen.sizes = {.entries = 4000, .synced = 40, .synced_in_batches = 4000, .stuck = 2000};
        chosen.common.rounds = 1;
    }
    chosen.sizes.seed = chosen.common.seed;
    bench::report out("store_bench", chosen.common);
    out.begin({{"entries", chosen.sizes.entries},
               {"synced", chosen.sizes.synced},
               {"synced_in_batches", chosen.sizes.synced_in_batches},
               {"stuck", chosen.sizes.stuck},
               {"writers", chosen.sizes.writers},
               {"key_bytes", 16},
               {"value_bytes", 100},
               {"memory_directory", chosen.memory_directory.string()},
               {"lmdb", chosen.lmdb},
               {"holdfast", chosen.holdfast}});
    std::vector<peer> peers = {{"holdfast", chosen.holdfast, {}}, {"lmdb", chosen.lmdb, {}}};
    for (const peer& one : peers) {
        if (one.path.empty() || !std::filesystem::exists(one.path)) {
            out.note("not measured: there is no library of " + one.name);
            return out.exit_status();
        }
    }
    if (chosen.thesis) {
        run_thesis(out, chosen, peers);
        return out.exit_status();
    }
    measure(chosen, peers);
    print(out, peers);
    if (peers[0].results.contains("checksum")) {
        const double ours = peers[0].results.at("checksum").median();
        if (ours != peers[1].results.at("checksum").median()) {
            throw std::runtime_error("the two libraries did not return the same items");
        }
        out.checksum(bench::mix(static_cast<std::uint64_t>(ours)));
    }
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    command_line app("The key-value store through LMDB's interface, beside Debian's liblmdb");
    chosen.common.declare(app);
    app.add_option("--entries", chosen.sizes.entries, "Entries of the large store").show_default().positive();
    app.add_option("--synced", chosen.sizes.synced, "Synced transactions of one put").show_default().positive();
    app.add_option("--batches", chosen.sizes.synced_in_batches, "Entries in synced batches of 1,000")
        .show_default()
        .positive();
    app.add_option("--stuck", chosen.sizes.stuck, "Entries that are overwritten under a reader")
        .show_default()
        .positive();
    app.add_option("--writers", chosen.sizes.writers, "Threads that write at a time").show_default().positive();
    app.add_option("--memory-directory", chosen.memory_directory, "A directory on tmpfs").show_default();
    app.add_option("--lmdb", chosen.lmdb, "The library of LMDB").show_default();
    app.add_option("--holdfast", chosen.holdfast, "Our library").show_default();
    app.add_option("--only", chosen.only,
                   "Workloads: put_synced, put_batches, put_by_threads, put_unsynced, "
                   "put_durable_memory, large_store, stuck_reader");
    app.add_flag("--thesis", chosen.thesis, "The workloads of the thesis instead, beside LMDB on the disk");
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "store_bench: {}\n", failure.what());
        return 1;
    }
}
