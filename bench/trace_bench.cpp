// Tracing: what it takes to recover a heap whose blocks were not recorded.
//
// `resur` (Makalu, thesis 5.13.2): blocks of random sizes up to half a page; a coin decides whether one stays, in a
// list at one of 512 roots, or is freed at once; then the program ends. Offline over online time. `list` (PMAlloc,
// table 3): one list of nodes of 64 to 128 bytes, one thread. And the marking of resur's heap by one thread and by two.
//
// Where the library has durability `collect`, the child that fills the heap is killed, and each round opens, and so
// traces, a copy, for an open mends the heap. Elsewhere the child commits (which is not counted) and closes, and
// collect() traces after the open: the same marking, on pages that this process has not touched.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "command_line/command_line.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/random.hpp"
#include "support/report.hpp"

namespace {

using holdfast_programs::command_line;

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
constexpr double offline_limit_percent = 3.5;  // the goals
constexpr double speedup_limit = 1.7;
constexpr double list_limit_ms = 550;
constexpr std::uint64_t half_page = 2048;

struct options {
    bench::common_options common;
    std::vector<std::uint64_t> sizes_mib{200, 400, 600, 800, 1024, 2048, 3072};
    std::uint64_t list_nodes = 10'000'000;
    bool first_word = false;  ///< nothing else of a block is written
};

struct node {
    holdfast::ptr<node> next;
};

holdfast::durability durability_here(const std::filesystem::path& directory) {
    const std::string path = (directory / "probe.hf").string();
    try {
        const holdfast::manager probe(holdfast::create_only, path,
                                      {.durability = holdfast::durability::collect, .accept_process_crash_only = true});
        return holdfast::durability::collect;
    } catch (const holdfast::error& refused) {
        if (refused.code() != holdfast::errc::promise_unavailable) {
            throw;
        }
        return holdfast::durability::commit;
    }
}

/// A block whose other words a program has written.
node* make_node(holdfast::manager& heap, std::uint64_t bytes, bool touch_all, bench::random_source& random) {
    void* const block = heap.allocate(bytes);
    if (touch_all) {
        std::memset(block, static_cast<int>(random.below(64)), bytes);
    }
    return ::new (block) node{};
}

/// Runs `fill`, which returns the milliseconds it counts, in a child that leaves the heap as a crash would.
template <class Fill>
double make_heap(const std::string& path, holdfast::durability durability, Fill fill) {
    const bool crashes = durability == holdfast::durability::collect;
    const auto result =
        bench::run_child(crashes ? bench::ending::dies : bench::ending::exits, [&](const bench::child_process& child) {
            holdfast::manager heap(holdfast::create_only, path,
                                   {.durability = durability, .accept_process_crash_only = true});
            child.hand_back({{"ms", fill(heap)}});
            if (crashes) {
                bench::child_process::die();
            }
            heap.close();
        });
    return result.at("ms").template get<double>();
}

double fill_resur(holdfast::manager& heap, std::uint64_t bytes, const options& chosen) {
    bench::random_source random(chosen.common.seed);
    const bool commits = heap.durability() == holdfast::durability::commit;
    double online = 0;
    std::uint64_t since_commit = 0;
    bench::stopwatch watch;
    for (std::uint64_t filled = 0; filled < bytes;) {
        const std::uint64_t size = random.between(sizeof(node), half_page);
        node* const made = make_node(heap, size, !chosen.first_word, random);
        filled += size;
        if (random.below(2) == 0) {
            auto& root = reinterpret_cast<holdfast::ptr<node>&>(heap.root(random.below(512)));
            made->next = root;
            root = made;
        } else {
            heap.deallocate(made);
        }
        since_commit += size;
        if (commits && since_commit >= 256 * mib) {  // bounds the private memory; not counted
            online += watch.milliseconds();
            heap.commit();
            since_commit = 0;
            watch = {};
        }
    }
    return online + watch.milliseconds();
}

double fill_list(holdfast::manager& heap, const options& chosen) {
    bench::random_source random(chosen.common.seed);
    const bench::stopwatch watch;
    node* last = nullptr;
    for (std::uint64_t i = 0; i < chosen.list_nodes; ++i) {
        node* const made = make_node(heap, random.between(64, 128), !chosen.first_word, random);
        if (last == nullptr) {
            heap.root(0) = made;
        } else {
            last->next = made;
        }
        last = made;
        if (heap.durability() == holdfast::durability::commit && i % 1'000'000 == 999'999) {
            heap.commit();
        }
    }
    return watch.milliseconds();
}

struct tracing {
    bench::samples open;  ///< of the heap
    bench::samples all;   ///< with the trace
    bench::samples mark;
    bench::samples rest;  ///< of the trace: page entries, headers and live bits before, sweep after
    holdfast::collect_report last;
};

/// Opens copies of the crashed heap.
tracing trace_by_opening(const std::string& crashed, unsigned rounds) {
    tracing found;
    const std::string path = crashed + "-copy";
    for (unsigned round = 0; round < rounds; ++round) {
        std::filesystem::copy(crashed, path, std::filesystem::copy_options::recursive);
        const bench::stopwatch watch;
        holdfast::manager heap(holdfast::open_only, path,
                               {.durability = holdfast::durability::collect, .accept_process_crash_only = true});
        const double all = watch.milliseconds();
        found.last = heap.last_recovery_trace().value();
        const double mark = static_cast<double>(found.last.mark_ns) / 1e6;
        const double rest = static_cast<double>(found.last.prepare_ns + found.last.sweep_ns) / 1e6;
        found.all.add(all);
        found.mark.add(mark);
        found.rest.add(rest);
        found.open.add(all - mark - rest);
        heap.close();
        std::filesystem::remove_all(path);
    }
    return found;
}

/// Opens the heap and traces it, `rounds` times.
tracing trace(const std::string& path, unsigned threads, unsigned rounds) {
    tracing found;
    for (unsigned round = 0; round < rounds; ++round) {
        const bench::stopwatch watch;
        holdfast::manager heap(holdfast::open_only, path);
        found.open.add(watch.milliseconds());
        found.last = heap.collect({.threads = threads});
        found.all.add(watch.milliseconds());
        found.mark.add(static_cast<double>(found.last.mark_ns) / 1e6);
        found.rest.add(static_cast<double>(found.last.prepare_ns + found.last.sweep_ns) / 1e6);
        heap.close();
    }
    return found;
}

void expect_sound(const tracing& found) {
    if (found.last.blocks_freed != 0 || found.last.refused_pointers + found.last.wild_pointers != 0) {
        throw std::runtime_error(fmt::format("{} blocks were not reached, {} pointers refused", found.last.blocks_freed,
                                             found.last.refused_pointers));
    }
}

int run(options chosen) {
    if (chosen.common.smoke) {
        chosen.sizes_mib = {8};
        chosen.list_nodes = 20'000;
        chosen.common.rounds = 1;
    }
    bench::report out("trace_bench", chosen.common);
    const bench::workplace probed(chosen.common.directory);
    const holdfast::durability durability = durability_here(probed.path());
    const bool collects = durability == holdfast::durability::collect;
    out.begin({{"durability", collects ? "collect" : "commit"},
               {"list_nodes", chosen.list_nodes},
               {"blocks_written", chosen.first_word ? "first word" : "whole"}});
    std::uint64_t checksum = 0;
    std::vector<bench::row> rows;
    double worst = 0;
    double speedup = 0;
    for (const std::uint64_t size : chosen.sizes_mib) {
        const bench::workplace place(chosen.common.directory);
        const std::string path = (place.path() / "resur.hf").string();
        const double online =
            make_heap(path, durability, [&](holdfast::manager& heap) { return fill_resur(heap, size * mib, chosen); });
        const double opened = collects ? trace_by_opening(path, chosen.common.rounds).all.median() : 0;
        if (collects) {
            holdfast::manager(holdfast::open_only, path, {.durability = durability, .accept_process_crash_only = true})
                .close();
        }
        const tracing all = trace(path, 0, chosen.common.rounds);
        const tracing one = trace(path, 1, chosen.common.rounds);
        const tracing two = trace(path, 2, chosen.common.rounds);
        expect_sound(all);
        const double offline = collects ? opened : all.all.median();
        speedup = one.mark.median() / two.mark.median();
        worst = std::max(worst, offline / online * 100);
        checksum = bench::mix(checksum + all.last.blocks_reached);
        rows.push_back({bench::count("mib", size), bench::count("blocks", all.last.blocks_reached),
                        bench::number("online_ms", online), bench::number("offline_ms", offline),
                        bench::number("offline_percent", offline / online * 100), bench::times("open_ms", all.open),
                        bench::times("rest_ms", all.rest), bench::times("mark_1_ms", one.mark),
                        bench::times("mark_2_ms", two.mark), bench::number("speedup", speedup)});
    }
    out.table("resur: a list at each of 512 roots", rows);

    const bench::workplace place(chosen.common.directory);
    const std::string path = (place.path() / "list.hf").string();
    make_heap(path, durability, [&](holdfast::manager& heap) { return fill_list(heap, chosen); });
    const tracing list = collects ? trace_by_opening(path, chosen.common.rounds) : trace(path, 1, chosen.common.rounds);
    expect_sound(list);
    checksum = bench::mix(checksum + list.last.blocks_reached);
    out.table(
        collects ? "one list, opened after a crash" : "one list, one thread",
        {{bench::count("nodes", list.last.blocks_reached), bench::times("open_ms", list.open),
          bench::times("rest_ms", list.rest), bench::times("mark_ms", list.mark), bench::times("all_ms", list.all)}});
    out.goal_at_most("resur, offline over online, the worst size", worst, offline_limit_percent, "%");
    out.goal_at_least("resur, marking by two threads over one, the largest size", speedup, speedup_limit, "x");
    out.goal_at_most("list, open and trace", list.all.median(), list_limit_ms, "ms");
    out.checksum(checksum);
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    command_line app("Tracing: resur, and a list");
    chosen.common.declare(app);
    app.add_option("--sizes", chosen.sizes_mib, "MiB that resur allocates").show_default();
    app.add_option("--nodes", chosen.list_nodes, "Nodes of the list").show_default();
    app.add_flag("--first-word", chosen.first_word, "Programs write no more than the first word of a block");
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "trace_bench: {}\n", failure.what());
        return 1;
    }
}
