#include "indexes/workloads.hpp"

#include <algorithm>
#include <barrier>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "allocators/runner.hpp"
#include "indexes/backend.hpp"
#include "indexes/requests.hpp"

namespace indexes {

namespace {

using bench::pass_part;
using bench::pass_result;

/// What one thread does.
struct thread_share {
    std::vector<request> measured;
    std::vector<request> timed;
    pass_part part;
    std::exception_ptr failure;
};

std::uint64_t perform(backend& on, const request& one, std::uint64_t number) {
    switch (one.what) {
        case call::insert: return on.insert(one.key, loaded_value_of(one.key)) ? 1 : 0;
        case call::update: return on.update(one.key, updated_value_of(one.key, number)) ? 1 : 0;
        case call::remove: return on.remove(one.key) ? 1 : 0;
        case call::find: return mark_in(on.find(one.key));
        case call::scan: return on.scan(one.key, one.length);
        case call::read_and_update: {
            const std::uint64_t found = mark_in(on.find(one.key));
            return found + (on.update(one.key, updated_value_of(one.key, number)) ? 1 : 0);
        }
    }
    return 0;
}

/// Returns a sum of what the calls returned.
std::uint64_t perform_all(backend& on, const std::vector<request>& all) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        sum += perform(on, all[i], i);
    }
    return sum;
}
std::uint64_t time_each(backend& on, const std::vector<request>& all, bench::tick_histogram& histogram) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const std::uint64_t start = bench::read_ticks();
        sum += perform(on, all[i], i);
        const std::uint64_t end = bench::read_ticks_after_stores();
        histogram.add(end > start ? end - start : 0);
    }
    return sum;
}

void run_share(backend& on, thread_share& own, bool is_timed) {
    pass_part& part = own.part;
    const std::vector<request>& all = is_timed ? own.timed : own.measured;
    const std::int64_t preemptions = bench::preemptions_of_this_thread();
    const std::int64_t cpu = bench::clock_ns(CLOCK_THREAD_CPUTIME_ID);
    part.calls = all.size();
    part.start_ns = bench::clock_ns(CLOCK_MONOTONIC);
    part.checksum = is_timed ? time_each(on, all, part.histogram) : perform_all(on, all);
    part.end_ns = bench::clock_ns(CLOCK_MONOTONIC);
    part.cpu_ns = bench::clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    part.preemptions = bench::preemptions_of_this_thread() - preemptions;
}

pass_result run_pass(backend& on, std::vector<thread_share>& shares, bool is_timed) {
    const bench::protocol_totals before = on.totals();
    std::barrier<> in_step(static_cast<std::ptrdiff_t>(shares.size()));
    {
        std::vector<std::jthread> threads;
        threads.reserve(shares.size());
        for (thread_share& own : shares) {
            threads.emplace_back([&on, &own, &in_step, is_timed] {
                in_step.arrive_and_wait();
                try {
                    run_share(on, own, is_timed);
                } catch (...) {
                    own.failure = std::current_exception();
                }
            });
        }
    }
    std::vector<pass_part> parts;
    parts.reserve(shares.size());
    for (const thread_share& own : shares) {
        if (own.failure) {
            std::rethrow_exception(own.failure);
        }
        parts.push_back(own.part);
    }
    pass_result result = bench::sum_of(parts);
    result.before = before;
    result.after = on.totals();
    return result;
}

struct content {
    std::uint64_t entries = 0;
    std::uint64_t checksum = 0;
};
/// What the map holds of the keys below `end`. An entry whose value is another key's: throws std::logic_error.
content content_of(const backend& on, std::uint64_t seed, std::uint64_t end) {
    content found;
    for (std::uint64_t i = 0; i < end; ++i) {
        const std::uint64_t key = key_of(seed, i);
        const std::uint64_t value = on.find(key);
        if (value == 0) {
            continue;
        }
        if (mark_in(value) != mark_of(key)) {
            throw std::logic_error(fmt::format("key {:#x} has the value of another", key));
        }
        ++found.entries;
        found.checksum += bench::mix(key + (is_updated(value) ? 1 : 0));
    }
    return found;
}

void describe(nlohmann::ordered_json& fields, backend& on, std::uint64_t entries) {
    fields["durability"] = on.durability();
    fields["domain"] = on.domain();
    if (const std::uint64_t bytes = on.bytes(); bytes != 0 && entries != 0) {
        fields["entry_bytes"] = static_cast<double>(bytes) / static_cast<double>(entries);
    }
    fields["peak_resident_mib"] = bench::peak_resident_mib();
    fields["commit_ms"] = on.finish();
}

nlohmann::ordered_json run_calls(const bench::allocation_run& run, const workload& what) {
    std::optional<zipf> ranks;
    if (what.is_mix || run.distribution == "zipf") {
        ranks.emplace(run.keys);
    }
    std::vector<thread_share> shares(run.threads);
    std::uint64_t end_of_keys = run.keys;
    for (unsigned i = 0; i < run.threads; ++i) {
        request_source source(run, what, i, ranks ? &*ranks : nullptr);
        shares[i].measured = source.next(source.calls());
        shares[i].timed = source.next(source.timed_calls());
        end_of_keys = std::max(end_of_keys, source.end_of_keys());
    }
    const std::unique_ptr<backend> on = find_map_kind(run.backend)->make(run, end_of_keys);
    const std::uint64_t loaded = what.inserts == 100 ? 0 : what.removals == 100 ? end_of_keys : run.keys;
    for (std::uint64_t i = 0; i < loaded; ++i) {
        const std::uint64_t key = key_of(run.seed, i);
        on->insert(key, loaded_value_of(key));
    }
    const pass_result throughput = run_pass(*on, shares, false);
    const pass_result latency = run_pass(*on, shares, true);
    bench::tick_histogram histogram;
    for (const thread_share& own : shares) {
        histogram.merge(own.part.histogram);
    }
    const content found = content_of(*on, run.seed, end_of_keys);
    pass_result check;
    check.checksum = found.checksum;
    if (run.threads == 1 || !what.scans_what_it_changes()) {
        check.checksum += throughput.checksum + latency.checksum;
    }
    nlohmann::ordered_json fields = bench::describe_passes(run, check, throughput, latency, histogram);
    describe(fields, *on, found.entries);
    return fields;
}

/// A call is an entry of the map that is opened.
nlohmann::ordered_json run_open(const bench::allocation_run& run) {
    const std::unique_ptr<backend> on = find_map_kind(run.backend)->make(run, run.keys);
    on->load(run.keys, loaded_value_of);
    const open_times times = on->open_again();
    pass_result pass;
    pass.calls = run.keys;
    pass.wall_ns = times.wall_ns;
    pass.cpu_ns = times.cpu_ns;
    for (std::uint64_t key = 1; key <= run.keys; ++key) {
        pass.checksum += bench::mix(on->find(key));
    }
    nlohmann::ordered_json fields = bench::describe_passes(run, pass, pass, {}, {});
    describe(fields, *on, run.keys);
    return fields;
}

}  // namespace

const map_kind* find_map_kind(const std::string& name) {
    static constexpr map_kind kinds[] = {
        {.name = "holdfast", .make = make_holdfast, .is_ordered = true, .may_have_threads = true, .is_on_media = true},
        {.name = "holdfast-hash",
         .make = make_holdfast_hash,
         .is_ordered = false,
         .may_have_threads = true,
         .is_on_media = true},
        {.name = "fptree-libpmemobj",
         .make = make_fptree_libpmemobj,
         .is_ordered = true,
         .may_have_threads = false,
         .is_on_media = true},
        {.name = "absl-btree",
         .make = make_absl_btree,
         .is_ordered = true,
         .may_have_threads = false,
         .is_on_media = false},
        {.name = "std-map", .make = make_std_map, .is_ordered = true, .may_have_threads = false, .is_on_media = false}};
    const auto* const found = std::ranges::find(kinds, name, &map_kind::name);
    return found == std::end(kinds) ? nullptr : found;
}

std::string reason_against(const bench::allocation_run& run) {
    const map_kind* const kind = find_map_kind(run.backend);
    const workload& what = workload_of(run.workload);
    if (kind == nullptr) {
        return "it is no map, which index-* and ycsb-* need";
    }
    if (what.scans != 0 && !kind->is_ordered) {
        return "it has no order, and so no scans";
    }
    if (what.is_open && !kind->is_on_media) {
        return "it lies on no media that could be opened";
    }
    if (what.is_open && run.threads != 1) {
        return "an open chooses its threads itself: index-open is measured with --threads 1";
    }
    return run.threads == 1 || kind->may_have_threads ? "" : "its calls are for one thread";
}

nlohmann::ordered_json run_workload(const bench::allocation_run& run) {
    const workload& what = workload_of(run.workload);
    return what.is_open ? run_open(run) : run_calls(run, what);
}

}  // namespace indexes
