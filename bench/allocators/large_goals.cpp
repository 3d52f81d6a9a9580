// The goals of large blocks, 32 to 512 KiB: beside libpmemobj, jemalloc and mimalloc.
#include <fmt/format.h>

#include "allocators/comparison.hpp"
#include "allocators/goal_judge.hpp"

namespace bench {

namespace {

constexpr const char* workloads[] = {"larson-large", "dbmstest", "threadtest-512k"};
constexpr double libpmemobj_factor = 5;
constexpr double volatile_factor = 1.5;
constexpr double p999_limit_ns = 50e3;

void judge_workload(report& out, const goal_runs& runs, const char* workload, unsigned threads) {
    goal_judge verdict(out, runs);
    const auto goal = [&](const std::string& what) {
        return fmt::format("{}, {} thread(s), {}", workload, threads, what);
    };
    const run_summary* const atomic = runs.find(workload, threads, "holdfast", "emulated", "atomic");
    const run_summary* const commit = runs.find(workload, threads, "holdfast", "emulated", "commit");
    const run_summary* const jemalloc = runs.find(workload, threads, "jemalloc");
    const run_summary* const better = faster_of(jemalloc, runs.find(workload, threads, "mimalloc"));
    verdict.times_as_fast(goal("atomic, as fast as libpmemobj"), atomic, runs.find(workload, threads, "libpmemobj"),
                          libpmemobj_factor);
    verdict.times_as_fast(goal(fmt::format("commit, as fast as the better of jemalloc and mimalloc ({})",
                                           better == jemalloc ? "jemalloc" : "mimalloc")),
                          commit, better, volatile_factor);
    verdict.at_most(goal("atomic, p99.9 of a call"), atomic, "p999_ns", p999_limit_ns / 1e3, "us", 1e3);
    verdict.at_most(goal("commit, p99.9 of a call"), commit, "p999_ns", p999_limit_ns / 1e3, "us", 1e3);
}

}  // namespace

std::vector<configuration> report_large_goals(report& out, const common_options& options,
                                              const allocation_run& pattern) {
    goal_runs runs(pattern);
    for (const char* const workload : workloads) {
        for (const unsigned threads : {1U, 2U}) {
            runs.add(workload, threads, "holdfast", "emulated", "atomic");
            runs.add(workload, threads, "holdfast", "emulated", "commit");
            for (const char* const peer : {"libpmemobj", "jemalloc", "mimalloc"}) {
                runs.add(workload, threads, peer);
            }
        }
    }
    measure_in_turn(runs.all(), options);
    print_configurations(out, runs.all(), options);
    for (const char* const workload : workloads) {
        for (const unsigned threads : {1U, 2U}) {
            judge_workload(out, runs, workload, threads);
        }
    }
    if (!options.json) {
        out.checksum(checksum_of(runs.all()));
    }
    return runs.all();
}

}  // namespace bench
