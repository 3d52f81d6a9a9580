// The goals of large blocks, 32 to 512 KiB: beside libpmemobj, jemalloc and mimalloc, all in one run.
#include <algorithm>

#include <fmt/format.h>

#include "allocators/comparison.hpp"
#include "allocators/goal_runs.hpp"

namespace bench {

namespace {

constexpr const char* workloads[] = {"larson-large", "dbmstest", "threadtest-512k"};
constexpr double libpmemobj_factor = 5;
constexpr double volatile_factor = 1.5;
constexpr double p999_limit_ns = 50e3;

void judge(report& out, const goal_runs& runs, const char* workload, unsigned threads) {
    const auto goal = [&](const std::string& what) {
        return fmt::format("{}, {} thread(s), {}", workload, threads, what);
    };
    const auto times_as_fast = [&](const std::string& what, const run_summary* ours, const run_summary* other,
                                   double limit) {
        if (ours == nullptr || other == nullptr) {
            out.note(fmt::format("goal: {}: not measured", what));
        } else {
            out.goal_at_least(what, ours->median("mops") / other->median("mops"), limit, "x");
        }
    };
    const auto p999 = [&](const std::string& what, const run_summary* ours) {
        if (ours != nullptr) {
            out.goal_at_most(what, ours->median("p999_ns") / 1e3, p999_limit_ns / 1e3, "us");
        }
    };
    const run_summary* const atomic = runs.find(workload, threads, "holdfast", "emulated", "atomic");
    const run_summary* const commit = runs.find(workload, threads, "holdfast", "emulated", "commit");
    const run_summary* const jemalloc = runs.find(workload, threads, "jemalloc");
    const run_summary* const mimalloc = runs.find(workload, threads, "mimalloc");
    times_as_fast(goal("atomic, as fast as libpmemobj"), atomic, runs.find(workload, threads, "libpmemobj"),
                  libpmemobj_factor);
    // Both must be there: the better of one would be a goal that is too easy.
    const run_summary* const better = jemalloc == nullptr || mimalloc == nullptr            ? nullptr
                                      : jemalloc->median("mops") > mimalloc->median("mops") ? jemalloc
                                                                                            : mimalloc;
    times_as_fast(goal(fmt::format("commit, as fast as the better of jemalloc and mimalloc ({})",
                                   better == jemalloc ? "jemalloc" : "mimalloc")),
                  commit, better, volatile_factor);
    p999(goal("atomic, p99.9 of a call"), atomic);
    p999(goal("commit, p99.9 of a call"), commit);
}

}  // namespace

void report_large_goals(report& out, const common_options& options, const allocation_run& pattern) {
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
    measure_in_turn(runs.all(), options, true);
    print_configurations(out, runs.all(), options);
    for (const char* const workload : workloads) {
        for (const unsigned threads : {1U, 2U}) {
            judge(out, runs, workload, threads);
        }
    }
    if (!options.json) {
        out.checksum(checksum_of(runs.all()));
    }
}

}  // namespace bench
