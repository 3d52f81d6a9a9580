// holdfast-bench (docs/benchmarks.md): what allocations cost and blocks take. Holdfast beside libpmemobj,
// Boost.Interprocess, memkind, jemalloc, mimalloc, the C library's malloc, and the hardware's own limit; transactions
// beside libpmemobj's, indexes beside an FPTree and maps of DRAM.
#include <algorithm>
#include <exception>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "allocators/allocation_run.hpp"
#include "allocators/comparison.hpp"
#include "allocators/html_report.hpp"
#include "command_line/command_line.hpp"
#include "support/report.hpp"

namespace {

using holdfast_programs::command_line;

struct options {
    bench::common_options common;
    bench::allocation_run run;
    std::vector<std::string> backends{"holdfast"};
    std::vector<std::string> workloads{"pair"};
    std::vector<unsigned> threads{1};
    bool goals = false;
    bool large_goals = false;
    bool small_goals = false;
    bool index_goals = false;
    bool scaling = false;
    std::string page;
    std::string worker;  // what this process is to run
};

void declare_workload(command_line& app, bench::allocation_run& run) {
    const auto number = [&app](const char* name, auto& value, std::uint64_t least, std::uint64_t greatest,
                               const char* text) {
        app.add_option(name, value, text).show_default().range(least, greatest);
    };
    constexpr std::uint64_t many = 1U << 24U;
    constexpr std::uint64_t most = 1U << 28U;
    app.add_option("--scale", run.scale,
                   "Millions of calls a thread; default: 2, of large blocks 0.5, of applications and idle-caches 0.2, "
                   "of tx-word 1, of other transactions 0.1, on a disk 0.001, of look-ups and updates in an index 1, "
                   "of scans 0.1")
        .range(1e-4, 1e5);
    number("--size", run.size, 8, many, "Bytes of a block, where the workload has no sizes of its own");
    number("--batch", run.batch, 1, 1U << 16U, "batch: blocks of one call");
    number("--destinations", run.destinations, 1, many, "pair, latency: a thread goes round so many");
    number("--objects", run.objects, 1, most, "threadtest: blocks that a thread allocates before it frees them");
    number("--queue", run.queue, 2, 1U << 20U, "prod-con: blocks that a producer may be ahead");
    number("--slots", run.slots, 1, many, "larson-small: blocks of a thread");
    number("--handover-steps", run.handover_steps, 1, 1U << 30U,
           "larson: steps after which the slots go to another thread");
    number("--large-objects", run.large_objects, 1, many, "threadtest-512k: as --objects");
    number("--large-slots", run.large_slots, 1, many, "larson-large: as --slots");
    number("--random-objects", run.random_objects, 1, many,
           "random-even, -small, -large: as --objects (PAllocator: 50,000, of random-small 500,000)");
    number("--dbms-objects", run.dbms_objects, 10, many,
           "dbmstest: blocks that all threads together allocate in an iteration");
    number("--shbench-slots", run.shbench_slots, 16, many, "shbench, idle-caches: blocks of a thread");
    number("--latency-blocks", run.latency_blocks, 1, most,
           "latency-million: blocks that a thread allocates before it frees them");
    number("--frag-phase", run.frag_phase_mib, 1, 1U << 20U,
           "frag-w1 to -w4: MiB that all threads allocate in a phase");
    number("--frag-live", run.frag_live_mib, 1, 1U << 16U, "frag-w1 to -w4: MiB that live at the most");
    number("--rest", run.rest_seconds, 0, 3'600,
           "frag-w1 to -w4, idle-caches: seconds before space is measured, in which freed memory may decay");
    app.add_flag("--cold", run.cold,
                 "One pass, each call timed, that begins with an empty heap: growth, first touch, the longest call");
    number("--bodies", run.bodies, 2, 1U << 22U, "barnes-hut: bodies of a thread (PMAlloc: 400,000)");
    number("--relations", run.relations, 1, 1U << 20U, "vacation: of each table of a thread (PMAlloc: 16,384)");
    number("--tiles", run.tiles, 1, 1'024, "cholesky: of 4 x 4 numbers, a side of a thread's matrix (Makalu: 250)");
    app.add_option("--cfrac-number", run.cfrac_number,
                   "cfrac: a composite number (default: two primes, 28 digits; PMAlloc: "
                   "17545186520507317056371138836327483792789528)");
    number("--keys", run.keys, 1, std::uint64_t{1} << 32U,
           "index-*, ycsb-*: entries, which index-insert inserts and index-remove removes, and the others find there");
    app.add_option("--distribution", run.distribution,
                   "index-update, -find, -scan: of the keys that calls name; zipf: with the exponent 0.99")
        .show_default()
        .one_of({"uniform", "zipf"});
    app.add_option("--latency-calls", run.latency_calls,
                   "Calls a thread that are timed one by one (0: 1 million in the workload latency, else 200,000)")
        .show_default();
}

void declare(command_line& app, options& chosen) {
    chosen.common.declare(app);
    app.add_option("--backend", chosen.backends,
                   "What allocates or holds keys; several: in turn, the first is what others are held to")
        .show_default()
        .delimiter(',')
        .one_of(bench::backend_names());
    app.add_option("--workload", chosen.workloads,
                   "What is allocated and freed, or done in transactions or with an index; several")
        .show_default()
        .delimiter(',')
        .one_of(bench::workload_names());
    app.add_option("--durability", chosen.run.durability, "Of holdfast; the others have one only")
        .show_default()
        .one_of({"atomic", "collect", "commit", "volatile"});
    app.add_option("--domain", chosen.run.domain, "What the storage is taken for; dax: fail where it is not")
        .show_default()
        .one_of({"emulated", "page-cache", "dax", "disk", "detect"});
    app.add_option("--threads", chosen.threads, "Numbers of threads").show_default().delimiter(',').range(1U, 1'024U);
    declare_workload(app, chosen.run);
    app.add_flag("--report", chosen.goals, "Everything that the goals of the durability atomic are judged by");
    app.add_flag("--report-large", chosen.large_goals, "Everything that the goals of large blocks are judged by");
    app.add_flag("--report-small", chosen.small_goals, "Everything that the goals of small blocks are judged by");
    app.add_flag("--report-indexes", chosen.index_goals, "Everything that the goals of indexes are judged by");
    app.add_flag(
        "--scaling", chosen.scaling,
        "What more threads bring, beside the raw record and mimalloc; --threads default: 1, 2, 4, ..., processors");
    app.add_option("--html", chosen.page, "Write one page with plots, tables and goals to this file");
    app.add_option("--worker", chosen.worker, "Run this, in this process").internal();
}

std::vector<bench::configuration> configurations_of(const options& chosen) {
    std::vector<bench::configuration> all;
    for (const std::string& workload : chosen.workloads) {
        for (const unsigned threads : chosen.threads) {
            if (workload == "prod-con" && threads > 1 && threads % 2 != 0) {
                throw std::invalid_argument("prod-con needs pairs of threads, or one");
            }
            for (const std::string& backend : chosen.backends) {
                bench::configuration one{chosen.run, {}};
                one.run.workload = workload;
                one.run.threads = threads;
                one.run.backend = backend;
                one.found.mark_unavailable(bench::reason_against(one.run));
                all.push_back(one);
            }
        }
    }
    return all;
}

bool judges_goals(const options& chosen) {
    return chosen.goals || chosen.large_goals || chosen.small_goals || chosen.index_goals || chosen.scaling;
}

/// All there is, in a few seconds.
void shrink(options& chosen) {
    chosen.common.rounds = 1;
    chosen.run.scale = 0.01;
    chosen.run.objects = 1'000;
    chosen.run.handover_steps = 500;
    chosen.run.large_objects = chosen.run.large_slots = chosen.run.dbms_objects = 50;
    chosen.run.random_objects = 50;
    chosen.run.shbench_slots = 500;
    chosen.run.latency_blocks = 2'000;
    chosen.run.frag_phase_mib = 2;
    chosen.run.frag_live_mib = 1;
    chosen.run.bodies = 200;
    chosen.run.relations = 64;
    chosen.run.tiles = 8;
    chosen.run.cfrac_number = "2524072652798701";
    chosen.run.keys = 3'000;
    chosen.run.durability = "atomic";
    if (judges_goals(chosen)) {
        return;
    }
    chosen.backends = bench::backend_names();
    chosen.workloads = bench::workload_names();
    chosen.threads = {1, 2};
}

std::vector<bench::configuration> judge(const options& chosen, bench::report& out) {
    std::vector<bench::configuration> all;
    const auto add = [&all](std::vector<bench::configuration> more) {
        std::ranges::move(more, std::back_inserter(all));
    };
    if (chosen.goals) {
        add(bench::report_goals(out, chosen.common, chosen.run));
    }
    if (chosen.large_goals) {
        add(bench::report_large_goals(out, chosen.common, chosen.run));
    }
    if (chosen.small_goals) {
        add(bench::report_small_goals(out, chosen.common, chosen.run));
    }
    if (chosen.index_goals) {
        add(bench::report_index_goals(out, chosen.common, chosen.run));
    }
    if (chosen.scaling) {
        add(bench::report_scaling(out, chosen.common, chosen.run, chosen.threads));
    }
    return all;
}

std::vector<bench::configuration> compare(const options& chosen, bench::report& out) {
    std::vector<bench::configuration> all = configurations_of(chosen);
    bench::measure_in_turn(all, chosen.common);
    bench::print_configurations(out, all, chosen.common);
    if (std::ranges::none_of(all, [](const auto& one) { return one.found.unavailable().empty(); })) {
        throw std::runtime_error("nothing could be measured");
    }
    if (!chosen.common.json) {
        out.checksum(bench::checksum_of(all));
    }
    return all;
}

int run(options chosen) {
    if (!chosen.worker.empty()) {
        return bench::run_one(chosen.worker);
    }
    if (chosen.scaling && chosen.threads == options().threads) {
        chosen.threads = bench::threads_to_scale_to();
    }
    if (chosen.common.smoke) {
        shrink(chosen);
    }
    chosen.run.seed = chosen.common.seed;
    bench::prepare_environment_of_runs();
    bench::report out("holdfast-bench", chosen.common);
    if (!chosen.common.json) {  // there, each line says all
        out.begin({{"durability", chosen.run.durability},
                   {"domain", chosen.run.domain},
                   {"scale", chosen.run.scale},
                   {"size", chosen.run.size},
                   {"batch", chosen.run.batch},
                   {"destinations", chosen.run.destinations},
                   {"objects", chosen.run.objects},
                   {"queue", chosen.run.queue},
                   {"slots", chosen.run.slots},
                   {"handover_steps", chosen.run.handover_steps},
                   {"large_objects", chosen.run.large_objects},
                   {"large_slots", chosen.run.large_slots},
                   {"random_objects", chosen.run.random_objects},
                   {"dbms_objects", chosen.run.dbms_objects},
                   {"shbench_slots", chosen.run.shbench_slots},
                   {"latency_blocks", chosen.run.latency_blocks},
                   {"frag_phase_mib", chosen.run.frag_phase_mib},
                   {"frag_live_mib", chosen.run.frag_live_mib},
                   {"rest_seconds", chosen.run.rest_seconds},
                   {"cold", chosen.run.cold},
                   {"bodies", chosen.run.bodies},
                   {"relations", chosen.run.relations},
                   {"tiles", chosen.run.tiles},
                   {"cfrac_number", chosen.run.cfrac_number},
                   {"keys", chosen.run.keys},
                   {"distribution", chosen.run.distribution}});
    }
    const std::vector<bench::configuration> all = judges_goals(chosen) ? judge(chosen, out) : compare(chosen, out);
    if (!chosen.page.empty()) {
        bench::write_html_report(chosen.page, all, out, chosen.common);
    }
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    chosen.common.directory = "/dev/shm";
    chosen.run.durability = "atomic";
    command_line app("Allocators, persistent and volatile: throughput, latency, durable records and fences of a call");
    declare(app, chosen);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "holdfast-bench: {}\n", failure.what());
        return 1;
    }
}
