// The experiments of Metall's paper with graphs: one that is larger than memory, built in a control group beside
// Boost.Interprocess and memkind; and one that grows in chunks, with a snapshot behind each.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "command_line/command_line.hpp"
#include "large_graph/backends.hpp"
#include "large_graph/graph_stream.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/memory_group.hpp"
#include "support/report.hpp"
#include "support/shared_extents.hpp"

namespace {

using bench::large_graph_progress;
using bench::large_graph_workload;
using holdfast_programs::command_line;
using holdfast_programs::kilobyte;
namespace fs = std::filesystem;

constexpr double mebibyte = 1U << 20U;

struct options {
    bench::common_options common;
    std::vector<std::string> experiments{"memory", "snapshots"};
    std::uint64_t memory = std::uint64_t{128} << 20U;
    large_graph_workload workload;
    unsigned edges_per_vertex = 16;
    std::uint64_t chunks = 26;
    std::uint64_t chunk_edges = 100'000;
    std::vector<unsigned> new_percents{99, 90};
};

// --- Larger than memory ---

struct outcome {
    large_graph_progress progress;
    std::string end = "all";
};

outcome run_backend(const options& chosen, const bench::large_graph_backend& backend) {
    void* const memory =
        ::mmap(nullptr, sizeof(large_graph_progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {  // NOLINT(performance-no-int-to-ptr)
        throw std::system_error(errno, std::generic_category(), "mmap");
    }
    auto* const progress = new (memory) large_graph_progress;
    const bench::workplace place(chosen.common.directory);
    large_graph_workload workload = chosen.workload;
    workload.directory = place.path();
    static_cast<void>(bench::drop_caches());
    outcome found;
    try {
        const bench::memory_group group(chosen.memory);
        bench::run_child(bench::ending::exits, [&](const bench::child_process&) {
            if (group.is_there()) {
                group.enter();
            }
            backend.run(workload, *progress);
        });
        found.end = progress->edges == workload.edges ? "all" : "time over";
    } catch (const std::runtime_error& failure) {
        found.end = failure.what();
    }
    found.progress = *progress;
    ::munmap(memory, sizeof(large_graph_progress));
    return found;
}

void run_larger_than_memory(bench::report& out, const options& chosen) {
    if (!bench::memory_group(chosen.memory).is_there()) {
        out.note("no control group of memory can be made here: the backends have the memory of the machine");
    }
    std::map<std::string, bench::samples> rates;
    for (unsigned round = 0; round < chosen.common.rounds; ++round) {
        std::vector<bench::row> rows;
        for (const bench::large_graph_backend& backend : bench::large_graph_backends()) {
            const outcome found = run_backend(chosen, backend);
            const large_graph_progress& done = found.progress;
            const double seconds = (done.insert_ms + done.durable_ms) / 1000;
            const double rate = seconds > 0 ? static_cast<double>(done.edges) / seconds : 0;
            rates[backend.name].add(rate);
            rows.push_back({bench::label("backend", backend.name), bench::count("edges", done.edges),
                            bench::number("insert_s", done.insert_ms / 1000),
                            bench::number("durable_s", done.durable_ms / 1000), bench::number("edges_a_second", rate),
                            bench::count("commits", done.commits),
                            bench::number("charged_mib", static_cast<double>(done.charged_bytes) / mebibyte),
                            bench::label("ended", found.end)});
        }
        out.table(fmt::format("larger than memory, round {}", round + 1), rows);
    }
    const auto best_of = [&](const char* one, const char* other) {
        return std::max(rates[one].median(), rates[other].median());
    };
    const double peers = best_of("interprocess", "memkind");
    if (peers > 0) {
        out.goal_at_least("larger than memory, times the better peer",
                          best_of("holdfast_commit", "holdfast_collect") / peers, 2.0, "x");
    }
}

// --- Snapshots of a growing graph ---

/// The heap's own writing is neither the snapshot's nor the copy's.
void write_back(const fs::path& directory) {
    const int at = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool written = at >= 0 && ::syncfs(at) == 0;
    if (at >= 0) {
        ::close(at);
    }
    if (!written) {
        throw std::system_error(errno, std::generic_category(), directory.string());
    }
}

/// As a snapshot without shared blocks is made: what is no hole is read, written and synced.
void copy_all(const fs::path& heap, const fs::path& to) {
    const std::string command = fmt::format("cp -r --sparse=always --reflink=never '{}' '{}' && sync '{}'/*",
                                            heap.string(), to.string(), to.string());
    if (std::system(command.c_str()) != 0) {  // NOLINT(concurrency-mt-unsafe): one thread
        throw std::runtime_error("cp failed");
    }
}

struct snapshot_sums {
    bench::samples snapshot;
    bench::samples copy;
    double snapshot_ms = 0;
    double copy_ms = 0;
    std::uint64_t snapshot_bytes = 0;
    std::uint64_t copy_bytes = 0;
};

snapshot_sums grow_with_snapshots(const options& chosen, holdfast::durability kind, unsigned new_percent) {
    const bench::workplace place(chosen.common.directory);
    using map = holdfast::unordered_map<std::uint64_t, holdfast::vector<std::uint64_t>>;
    holdfast::open_options wanted;
    wanted.durability = kind;
    wanted.accept_process_crash_only = kind == holdfast::durability::collect;
    const fs::path path = place.path() / "graph.hf";
    holdfast::manager heap(holdfast::create_only, path.string(), wanted);
    map& graph = *heap.construct<map>("graph")(heap.get_allocator<std::byte>());
    bench::growing_graph stream(chosen.chunk_edges / chosen.edges_per_vertex, new_percent, chosen.common.seed);
    snapshot_sums sums;
    std::vector<fs::path> snapshots;
    for (std::uint64_t chunk = 0; chunk < chosen.chunks; ++chunk) {
        for (std::uint64_t i = 0; i < chosen.chunk_edges; ++i) {
            const bench::edge one = stream.next(chunk);
            graph.try_emplace(one.source, heap.get_allocator<std::uint64_t>()).first->second.push_back(one.target);
        }
        heap.commit();
        write_back(place.path());
        snapshots.push_back(place.path() / fmt::format("snapshot.{}", chunk));
        const bench::stopwatch sharing;
        heap.snapshot(snapshots.back().string());
        sums.snapshot.add(sharing.milliseconds());
        sums.snapshot_ms += sharing.milliseconds();
        const fs::path copy = place.path() / "copy";
        const bench::stopwatch copying;
        copy_all(path, copy);
        sums.copy.add(copying.milliseconds());
        sums.copy_ms += copying.milliseconds();
        sums.copy_bytes += bench::bytes_of_blocks({copy});
        fs::remove_all(copy);
    }
    std::vector<fs::path> all = snapshots;
    all.push_back(path);
    sums.snapshot_bytes = bench::bytes_of_blocks(all) - bench::bytes_of_blocks({path});
    return sums;
}

void run_snapshots(bench::report& out, const options& chosen) {
    constexpr std::pair<holdfast::durability, const char*> kinds[] = {{holdfast::durability::commit, "commit"},
                                                                      {holdfast::durability::collect, "collect"}};
    std::vector<bench::row> rows;
    for (const unsigned new_percent : chosen.new_percents) {
        for (const auto& [kind, name] : kinds) {
            const snapshot_sums sums = grow_with_snapshots(chosen, kind, new_percent);
            const double times = sums.copy_ms / sums.snapshot_ms;
            const double less =
                100 - 100 * static_cast<double>(sums.snapshot_bytes) / static_cast<double>(sums.copy_bytes);
            rows.push_back({bench::label("durability", name), bench::count("new_percent", new_percent),
                            bench::number("snapshots_ms", sums.snapshot_ms), bench::number("copies_ms", sums.copy_ms),
                            bench::times("one_snapshot_ms", sums.snapshot), bench::times("one_copy_ms", sums.copy),
                            bench::number("snapshots_mib", static_cast<double>(sums.snapshot_bytes) / mebibyte),
                            bench::number("copies_mib", static_cast<double>(sums.copy_bytes) / mebibyte)});
            const std::string which = fmt::format("{}, {} % new", name, new_percent);
            out.goal_at_least(fmt::format("snapshots in {}, times as fast as copies", which), times, 8, "x");
            out.goal_at_least(fmt::format("snapshots in {}, space less than of copies", which), less, 83, "%");
        }
    }
    out.table(fmt::format("{} chunks with a snapshot each", chosen.chunks), rows);
}

void declare(command_line& app, options& chosen) {
    chosen.common.declare(app);
    app.add_option("--experiments", chosen.experiments, "memory, snapshots").show_default();
    app.add_option("--memory", chosen.memory, "Of the control group").size(kilobyte::of_1024);
    app.add_option("--scale", chosen.workload.scale, "2^scale vertices").show_default().range(4U, 30U);
    app.add_option("--edges", chosen.edges_per_vertex, "Edges a vertex").show_default().range(1U, 1'024U);
    app.add_option("--seconds", chosen.workload.seconds, "Of a backend, for insertions").show_default();
    app.add_option("--chunks", chosen.chunks, "Of the growing graph").show_default();
    app.add_option("--chunk-edges", chosen.chunk_edges, "Edges of a chunk").show_default();
    app.add_option("--new-percent", chosen.new_percents, "Edges of a chunk that begin at its own vertices")
        .show_default()
        .range(0U, 100U);
}

int run(options chosen) {
    large_graph_workload& workload = chosen.workload;
    if (chosen.common.smoke) {
        workload.scale = 10;
        chosen.common.rounds = 1;
        chosen.chunks = 2;
        chosen.chunk_edges = 1000;
    }
    workload.seed = chosen.common.seed;
    workload.edges = (std::uint64_t{1} << workload.scale) * chosen.edges_per_vertex;
    workload.file_bytes = workload.edges * 128 + (std::uint64_t{64} << 20U);
    bench::report out("large_graph_bench", chosen.common);
    out.begin({{"generator", "R-MAT a=0.57 b=0.19 c=0.19 d=0.05, vertices scrambled"},
               {"scale", workload.scale},
               {"edges_a_vertex", chosen.edges_per_vertex},
               {"memory", chosen.memory},
               {"seconds", workload.seconds},
               {"chunks", chosen.chunks},
               {"chunk_edges", chosen.chunk_edges},
               {"new_percent", chosen.new_percents}});
    for (const std::string& experiment : chosen.experiments) {
        if (experiment == "memory") {
            run_larger_than_memory(out, chosen);
        } else if (experiment == "snapshots") {
            run_snapshots(out, chosen);
        } else {
            throw std::invalid_argument("no such experiment: " + experiment);
        }
    }
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    chosen.common.rounds = 1;
    chosen.workload.scale = 18;
    command_line app("A graph that is larger than memory; and one that grows, with snapshots");
    declare(app, chosen);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "large_graph_bench: {}\n", failure.what());
        return 1;
    }
}
