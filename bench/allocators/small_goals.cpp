// The goals of small blocks: the durability `commit` beside mimalloc and jemalloc, what blocks take when their sizes
// change, and what idle threads hold.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "allocators/comparison.hpp"
#include "allocators/goal_judge.hpp"

namespace bench {

namespace {

constexpr const char* churns[] = {"threadtest", "shbench", "larson-small"};
constexpr const char* latencies[] = {"latency", "latency-million"};
constexpr const char* volatile_peers[] = {"mimalloc", "jemalloc"};
constexpr const char* durabilities[] = {"commit", "atomic"};
constexpr double collect_factor = 0.97;  ///< of durability commit
constexpr double mimalloc_factor = 1.0;
constexpr double jemalloc_factor = 1.3;
constexpr double prod_con_factor = 1.0;
constexpr unsigned crowd = 8;  ///< threads, more than there are cores
constexpr double crowd_factor = 0.9;
constexpr unsigned idle_threads = 64;
constexpr unsigned fading_seconds = 11;  ///< a little more than what freed space takes to become holes
constexpr double idle_mib_a_thread = 1;

struct space_goal {
    const char* workload;
    double ratio;
};
constexpr space_goal space_goals[] = {{"frag-w1", 1.4}, {"frag-w2", 1.7}, {"frag-w3", 1.4}, {"frag-w4", 1.7}};

class small_judge : public goal_judge {
public:
    using goal_judge::goal_judge;

    void throughput() {
        for (const char* const workload : churns) {
            for (const unsigned threads : {1U, 2U}) {
                const run_summary* const ours = holdfast(workload, threads);
                times_as_fast(fmt::format("{}, {} thread(s), as fast as mimalloc", workload, threads), ours,
                              runs().find(workload, threads, "mimalloc"), mimalloc_factor);
                times_as_fast(fmt::format("{}, {} thread(s), as fast as jemalloc", workload, threads), ours,
                              runs().find(workload, threads, "jemalloc"), jemalloc_factor);
            }
            crowded(workload);
            times_as_fast(fmt::format("{}, 1 thread, collect as fast as commit", workload),
                          holdfast(workload, 1, "collect"), holdfast(workload, 1), collect_factor);
        }
        const run_summary* const jemalloc = runs().find("prod-con", 2, "jemalloc");
        const run_summary* const better = faster_of(jemalloc, runs().find("prod-con", 2, "mimalloc"));
        times_as_fast(fmt::format("prod-con, 2 threads, as fast as the better of jemalloc and mimalloc ({})",
                                  better == jemalloc ? "jemalloc" : "mimalloc"),
                      holdfast("prod-con", 2), better, prod_con_factor);
        crowded("prod-con");
    }
    void latency() {
        for (const char* const workload : latencies) {
            const run_summary* const peer = runs().find(workload, 1, "mimalloc");
            for (const auto& [key, name] : {std::pair{"p999_ns", "p99.9"}, std::pair{"p9999_ns", "p99.99"}}) {
                const auto what = fmt::format("{}, {}; the limit is mimalloc's", workload, name);
                if (is_there(what, holdfast(workload, 1), peer)) {
                    at_most(what, holdfast(workload, 1), key, peer->median(key), "ns");
                }
            }
        }
    }
    void space() {
        for (const space_goal& goal : space_goals) {
            for (const char* const durability : durabilities) {
                at_most(fmt::format("{}, {}: charged by what is live", goal.workload, durability),
                        holdfast(goal.workload, 1, durability), "taken_ratio", goal.ratio, "x");
            }
        }
    }
    void idle() {
        for (const char* const durability : durabilities) {
            const auto what = fmt::format("{} idle threads, {}: held by each", idle_threads, durability);
            const run_summary* const one = holdfast("idle-caches", 1, durability);
            const run_summary* const many = holdfast("idle-caches", idle_threads, durability);
            if (is_there(what, one, many)) {
                out().goal_at_most(what, held_a_thread(*one, *many), idle_mib_a_thread, "MiB");
            }
        }
        for (const char* const peer : volatile_peers) {
            const run_summary* const one = runs().find("idle-caches", 1, peer);
            const run_summary* const many = runs().find("idle-caches", idle_threads, peer);
            if (one != nullptr && many != nullptr) {
                out().note(fmt::format("{} idle threads of {} hold {:.2f} MiB each", idle_threads, peer,
                                       held_a_thread(*one, *many)));
            }
        }
    }

private:
    [[nodiscard]] const run_summary* holdfast(const char* workload, unsigned threads,
                                              const char* durability = "commit") const {
        return runs().find(workload, threads, "holdfast", "emulated", durability);
    }
    void crowded(const char* workload) {
        times_as_fast(fmt::format("{}, {} threads, as fast as 2", workload, crowd), holdfast(workload, crowd),
                      holdfast(workload, 2), crowd_factor);
    }
    /// Storage or memory, whichever is more, beyond what one thread leaves.
    static double held_a_thread(const run_summary& one, const run_summary& many) {
        const auto held = [](const run_summary& found) {
            return std::max(found.median("taken_mib"), found.median("resident_mib"));
        };
        return (held(many) - held(one)) / (idle_threads - 1);
    }
};

void add_with_peers(goal_runs& runs, const char* workload, unsigned threads) {
    runs.add(workload, threads, "holdfast", "emulated", "commit");
    for (const char* const peer : volatile_peers) {
        runs.add(workload, threads, peer);
    }
}

void add_timed(goal_runs& runs) {
    for (const char* const workload : churns) {
        for (const unsigned threads : {1U, 2U}) {
            add_with_peers(runs, workload, threads);
        }
        runs.add(workload, 1, "holdfast", "emulated", "collect");
        runs.add(workload, crowd, "holdfast", "emulated", "commit");
    }
    add_with_peers(runs, "prod-con", 2);
    runs.add("prod-con", crowd, "holdfast", "emulated", "commit");
    for (const char* const workload : latencies) {
        runs.add(workload, 1, "holdfast", "emulated", "commit");
        runs.add(workload, 1, "mimalloc");
    }
}

void add_spaces(goal_runs& runs) {
    for (const space_goal& goal : space_goals) {
        runs.add(goal.workload, 1, "holdfast", "emulated", "atomic");
        add_with_peers(runs, goal.workload, 1);
    }
}

/// Threads hold what is left when freed space has decayed.
allocation_run after_fading(allocation_run pattern) {
    pattern.rest_seconds = std::max(pattern.rest_seconds, fading_seconds);
    return pattern;
}

void add_idle(goal_runs& runs) {
    for (const unsigned threads : {1U, idle_threads}) {
        runs.add("idle-caches", threads, "holdfast", "emulated", "atomic");
        add_with_peers(runs, "idle-caches", threads);
    }
}

}  // namespace

std::vector<configuration> report_small_goals(report& out, const common_options& options,
                                              const allocation_run& pattern) {
    goal_runs timed(pattern);
    add_timed(timed);
    measure_in_turn(timed.all(), options);
    goal_runs spaces(pattern);
    add_spaces(spaces);
    common_options once = options;
    once.rounds = 1;  // space is the same in each, but for what threads do at the same time
    measure_in_turn(spaces.all(), once);
    goal_runs idle(options.smoke ? pattern : after_fading(pattern));
    add_idle(idle);
    measure_in_turn(idle.all(), once);
    print_configurations(out, timed.all(), options);
    print_configurations(out, spaces.all(), once);
    print_configurations(out, idle.all(), once);
    small_judge by_time(out, timed);
    by_time.throughput();
    by_time.latency();
    small_judge by_space(out, spaces);
    by_space.space();
    small_judge by_threads(out, idle);
    by_threads.idle();
    std::vector<configuration> all = timed.all();
    all.insert(all.end(), spaces.all().begin(), spaces.all().end());
    all.insert(all.end(), idle.all().begin(), idle.all().end());
    if (!options.json) {
        out.checksum(checksum_of(all));
    }
    return all;
}

}  // namespace bench
