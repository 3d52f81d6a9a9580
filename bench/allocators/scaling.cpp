// What more threads bring: durability `atomic` beside the raw record, `commit` beside mimalloc, by the same threads.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "allocators/comparison.hpp"
#include "allocators/goal_judge.hpp"

namespace bench {

namespace {

struct pairing {
    const char* durability;
    const char* peer;   ///< null: of its own kind there is none
    double least;       ///< by the peer, with all threads
    double efficiency;  ///< with all threads, by one
};
constexpr pairing durable{"atomic", "raw", 0.7, 0};
constexpr pairing by_transactions{"atomic", "libpmemobj", 4, 0};
constexpr pairing in_memory{"commit", "mimalloc", 0.9, 0};
constexpr pairing durable_index{"atomic", nullptr, 0, 11.0 / 16};
constexpr pairing index_in_memory{"commit", nullptr, 0, 0};

struct scaling_work {
    const char* workload;
    pairing by;
};
constexpr scaling_work works[] = {{"threadtest", durable},
                                  {"prod-con", durable},
                                  {"shbench", durable},
                                  {"larson-small", durable},
                                  {"tx-word", by_transactions},
                                  {"threadtest", in_memory},
                                  {"prod-con", in_memory},
                                  {"shbench", in_memory},
                                  {"larson-small", in_memory},
                                  {"index-insert", durable_index},
                                  {"index-insert", index_in_memory}};
constexpr unsigned many_cores = 16;  ///< of the goals

/// The first is what efficiency counts from: of prod-con, a pair.
std::vector<unsigned> threads_for(const char* workload, std::vector<unsigned> threads) {
    if (std::string(workload) == "prod-con") {
        std::erase_if(threads, [](unsigned each) { return each % 2 != 0; });
    }
    return threads;
}

const run_summary* find(const goal_runs& runs, const scaling_work& work, unsigned threads) {
    return runs.find(work.workload, threads, "holdfast", "emulated", work.by.durability);
}
const run_summary* find_peer(const goal_runs& runs, const scaling_work& work, unsigned threads) {
    return work.by.peer == nullptr ? nullptr : runs.find(work.workload, threads, work.by.peer);
}

/// Of what as many times the threads of `first` could do.
double efficiency(const run_summary& found, unsigned threads, const run_summary& first, unsigned first_threads) {
    return found.median("mops") / first.median("mops") * first_threads / threads;
}

cell share(const char* key, double value, bool is_there) {
    return is_there ? cell{key, fmt::format("{:.2f}", value), value} : cell{key, "-", nullptr};
}

std::vector<row> rows_of(const goal_runs& runs, const scaling_work& work, const std::vector<unsigned>& threads) {
    std::vector<row> rows;
    for (const unsigned each : threads) {
        const run_summary* const ours = find(runs, work, each);
        const run_summary* const first = find(runs, work, threads.front());
        if (ours == nullptr || first == nullptr) {
            continue;
        }
        const run_summary* const peer = find_peer(runs, work, each);
        const run_summary* const peer_first = find_peer(runs, work, threads.front());
        const bool has_peer = peer != nullptr && peer_first != nullptr;
        rows.push_back(
            {count("threads", each), number("mops", ours->median("mops")),
             share("efficiency", efficiency(*ours, each, *first, threads.front()), true),
             label("peer", work.by.peer == nullptr ? "-" : work.by.peer),
             share("peer_mops", has_peer ? peer->median("mops") : 0, has_peer),
             share("peer_efficiency", has_peer ? efficiency(*peer, each, *peer_first, threads.front()) : 0, has_peer),
             share("by_peer", has_peer ? ours->median("mops") / peer->median("mops") : 0, has_peer)});
    }
    return rows;
}

class scaling_judge : public goal_judge {
public:
    using goal_judge::goal_judge;

    void judge(const scaling_work& work, const std::vector<unsigned>& threads) {
        const unsigned most = threads.back();
        const auto what = fmt::format("{}, {}, {} threads", work.workload, work.by.durability, most);
        const run_summary* const ours = find(runs(), work, most);
        if (work.by.peer != nullptr) {
            times_as_fast(fmt::format("{}: by {}", what, work.by.peer), ours, find_peer(runs(), work, most),
                          work.by.least);
        }
        const run_summary* const first = find(runs(), work, threads.front());
        if (work.by.efficiency != 0 && is_there(what, ours, first)) {
            out().goal_at_least(fmt::format("{}: efficiency", what), efficiency(*ours, most, *first, threads.front()),
                                work.by.efficiency, "x");
        }
    }
};

}  // namespace

std::vector<unsigned> threads_to_scale_to() {
    const unsigned processors = std::max(std::thread::hardware_concurrency(), 1U);
    std::vector<unsigned> threads;
    for (unsigned each = 1; each < processors; each *= 2) {
        threads.push_back(each);
    }
    threads.push_back(processors);
    return threads;
}

std::vector<configuration> report_scaling(report& out, const common_options& options, const allocation_run& pattern,
                                          const std::vector<unsigned>& threads) {
    goal_runs runs(pattern);
    for (const scaling_work& work : works) {
        for (const unsigned each : threads_for(work.workload, threads)) {
            runs.add(work.workload, each, "holdfast", "emulated", work.by.durability);
            if (work.by.peer != nullptr) {
                runs.add(work.workload, each, work.by.peer);
            }
        }
    }
    measure_in_turn(runs.all(), options);
    if (options.json) {
        print_configurations(out, runs.all(), options);
    }
    const bool is_judged = threads.back() >= many_cores && threads.back() <= std::thread::hardware_concurrency();
    scaling_judge judge(out, runs);
    for (const scaling_work& work : works) {
        const std::vector<unsigned> counts = threads_for(work.workload, threads);
        const std::vector<row> rows = counts.empty() ? std::vector<row>() : rows_of(runs, work, counts);
        if (rows.empty()) {
            continue;
        }
        out.table(fmt::format("{}, {}", work.workload, work.by.durability), rows);
        if (is_judged) {
            judge.judge(work, counts);
        }
    }
    for (const configuration& one : runs.all()) {
        if (!one.found.unavailable().empty() && one.run.threads == threads.front()) {
            out.note(fmt::format("{}: not measured: {}", one.run.backend, one.found.unavailable()));
        }
    }
    if (!is_judged) {
        out.note(fmt::format("goals are for {} processors and more, with as many threads", many_cores));
    }
    if (!options.json) {
        out.checksum(checksum_of(runs.all()));
    }
    return runs.all();
}

}  // namespace bench
