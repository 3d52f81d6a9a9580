// The goals of the durability `atomic`: everything in turn in one run, so that the ratios are those of one machine at
// one time.
#include <fmt/format.h>

#include "allocators/comparison.hpp"
#include "allocators/goal_judge.hpp"

namespace bench {

namespace {

class atomic_judge : public goal_judge {
public:
    using goal_judge::goal_judge;

    void pairs() {
        const run_summary* const one = runs().find("pair", 1, "holdfast");
        const run_summary* const two = runs().find("pair", 2, "holdfast");
        for (const unsigned threads : {1U, 2U}) {
            const run_summary* const ours = threads == 1 ? one : two;
            const run_summary* const raw = runs().find("pair", threads, "raw");
            const auto what = fmt::format("pair, {} thread(s): time of a call by the raw limit", threads);
            if (is_there(what, ours, raw)) {
                out().goal_at_most(what, raw->median("mops") / ours->median("mops"), 1.3, "x");
            }
            const run_summary* const peer = runs().find("pair", threads, "libpmemobj");
            times_as_fast(fmt::format("pair, {} thread(s), as fast as libpmemobj", threads), ours, peer, 8);
            if (raw != nullptr && peer != nullptr) {
                out().note(fmt::format("the raw limit itself is {:.2f} x as fast as libpmemobj",
                                       raw->median("mops") / peer->median("mops")));
            }
        }
        times_as_fast("pair, 2 threads, as fast as 1", two, one, 1.9);
        times_as_fast("batches, as fast as single calls", runs().find("batch", 1, "holdfast"), one, 3);
        times_as_fast("pair on page-cache, as fast as mimalloc", runs().find("pair", 1, "holdfast", "page-cache"),
                      runs().find("pair", 1, "mimalloc"), 0.25);
        at_most("pair: durable records a call", one, "records_per_call", 1.005, "");
        at_most("pair: fences a call", one, "fences_per_call", 1.01, "");
        at_most("pair: lines flushed again at a distance < 4", one, "reflush_ratio", 0, "");
    }
    void others() {
        for (const char* const workload : {"larson-small", "prod-con"}) {
            for (const unsigned threads : {1U, 2U}) {
                times_as_fast(fmt::format("{}, {} thread(s), as fast as libpmemobj", workload, threads),
                              runs().find(workload, threads, "holdfast"), runs().find(workload, threads, "libpmemobj"),
                              6);
            }
        }
    }
    void latency() {
        const run_summary* const ours = runs().find("latency", 1, "holdfast");
        if (ours != nullptr) {
            const double checkpoint = ours->median("longest_checkpoint_ns");
            at_most(fmt::format("latency: p99.9; the limit is 2 x p50 + the longest checkpoint, {:.0f} ns", checkpoint),
                    ours, "p999_ns", 2 * ours->median("p50_ns") + checkpoint, "ns");
        }
        at_most("latency: the longest call", ours, "max_ns", 1e6, "ns");
        const run_summary* const nothing = runs().find("latency", 1, "none");
        if (nothing != nullptr) {
            out().note(
                fmt::format("a call that does nothing: p50 {:.0f} ns, p99.9 {:.0f} ns, longest {:.0f} ns, all "
                            "with the clock's {:.0f} ns: what clock, kernel and neighbours add",
                            nothing->median("p50_ns"), nothing->median("p999_ns"), nothing->median("max_ns"),
                            nothing->median("clock_ns")));
        }
        const run_summary* const loop = runs().find("pair", 1, "none");
        if (loop != nullptr) {
            out().note(fmt::format("the benchmark's own cost: {:.2f} ns a call of pair", loop->median("call_ns")));
        }
    }
};

}  // namespace

std::vector<configuration> report_goals(report& out, const common_options& options, const allocation_run& pattern) {
    goal_runs runs(pattern);
    for (const unsigned threads : {1U, 2U}) {
        for (const char* const backend : {"raw", "holdfast", "libpmemobj", "none"}) {
            runs.add("pair", threads, backend);
        }
    }
    runs.add("pair", 1, "mimalloc");
    runs.add("pair", 1, "holdfast", "page-cache");
    runs.add("batch", 1, "raw");
    runs.add("batch", 1, "holdfast");
    for (const char* const workload : {"larson-small", "prod-con"}) {
        for (const unsigned threads : {1U, 2U}) {
            runs.add(workload, threads, "holdfast");
            runs.add(workload, threads, "libpmemobj");
        }
    }
    for (const char* const backend : {"raw", "holdfast", "none"}) {
        runs.add("latency", 1, backend);
    }
    measure_in_turn(runs.all(), options);
    print_configurations(out, runs.all(), options);
    if (pattern.durability != "atomic") {
        out.note(fmt::format("measured in the durability {}; the goals are those of atomic", pattern.durability));
    }
    atomic_judge verdict(out, runs);
    verdict.pairs();
    verdict.others();
    verdict.latency();
    if (!options.json) {
        out.checksum(checksum_of(runs.all()));
    }
    return runs.all();
}

}  // namespace bench
