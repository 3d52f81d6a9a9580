// The goals of indexes: beside a durable record, an FPTree over libpmemobj, and maps of DRAM. By the processor's time
// of one thread, which other work on the machine changes least.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "allocators/comparison.hpp"
#include "allocators/goal_judge.hpp"

namespace bench {

namespace {

constexpr const char* maps[] = {"holdfast", "holdfast-hash", "fptree-libpmemobj", "absl-btree", "std-map"};
constexpr const char* index_workloads[] = {"index-insert", "index-update", "index-find", "index-scan",
                                           "index-remove", "index-open",   "ycsb-a",     "ycsb-b",
                                           "ycsb-c",       "ycsb-d",       "ycsb-e",     "ycsb-f"};
constexpr double record_factor = 2.5;
constexpr double fptree_factor = 2;
constexpr double find_factor = 1;
constexpr double scan_factor = 0.7;
constexpr double entry_bytes_limit = 28;
constexpr double open_limit_ms = 1000;

class index_judge : public goal_judge {
public:
    using goal_judge::goal_judge;

    void judge() {
        const run_summary* const insert = of("index-insert", "holdfast");
        const run_summary* const record = of("pair", "holdfast");
        if (const std::string what = "index-insert, against a record and a fence"; is_there(what, insert, record)) {
            out().goal_at_most(what, insert->median("cpu_ns") / record->median("cpu_ns"), record_factor, "x");
        }
        for (const char* const workload : {"index-insert", "index-update", "index-remove"}) {
            peer_takes(workload, "fptree-libpmemobj", fptree_factor);
        }
        peer_takes("index-find", "absl-btree", find_factor);
        peer_takes("index-scan", "absl-btree", scan_factor);
        at_most("index-insert, an entry takes", insert, "entry_bytes", entry_bytes_limit, "bytes");
        constexpr double entries = 1e8;
        at_most("index-open, for 100 million entries", of("index-open", "holdfast"), "call_ns", open_limit_ms, "ms",
                1e6 / entries);
    }

private:
    [[nodiscard]] const run_summary* of(const char* workload, const char* backend) const {
        return runs().find(workload, 1, backend, "emulated", "atomic");
    }
    void peer_takes(const char* workload, const char* peer, double limit) {
        const std::string what = fmt::format("{}, time of {}", workload, peer);
        const run_summary* const ours = of(workload, "holdfast");
        if (const run_summary* const other = of(workload, peer); is_there(what, ours, other)) {
            out().goal_at_least(what, other->median("cpu_ns") / ours->median("cpu_ns"), limit, "x");
        }
    }
};

}  // namespace

std::vector<configuration> report_index_goals(report& out, const common_options& options,
                                              const allocation_run& pattern) {
    allocation_run of_uniform_keys = pattern;
    of_uniform_keys.distribution = "uniform";
    allocation_run of_skewed_keys = pattern;
    of_skewed_keys.distribution = "zipf";
    goal_runs uniform(of_uniform_keys);
    goal_runs skewed(of_skewed_keys);
    const auto add = [](goal_runs& to, const char* workload, unsigned threads) {
        for (const char* const map : maps) {
            to.add(workload, threads, map, "emulated", "atomic");
        }
    };
    uniform.add("pair", 1, "holdfast", "emulated", "atomic");
    for (const char* const workload : index_workloads) {
        add(uniform, workload, 1);
    }
    for (const char* const workload : {"index-find", "index-update"}) {
        for (const char* const map : {"holdfast", "holdfast-hash"}) {
            uniform.add(workload, 2, map, "emulated", "atomic");
        }
        add(skewed, workload, 1);
    }
    std::vector<configuration> all;
    for (goal_runs* const runs : {&uniform, &skewed}) {
        for (configuration& one : runs->all()) {
            one.found.mark_unavailable(reason_against(one.run));
        }
        measure_in_turn(runs->all(), options);
        print_configurations(out, runs->all(), options);
        std::ranges::copy(runs->all(), std::back_inserter(all));
    }
    index_judge(out, uniform).judge();
    if (!options.json) {
        out.checksum(checksum_of(all));
    }
    return all;
}

}  // namespace bench
