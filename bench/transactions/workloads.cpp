#include "transactions/workloads.hpp"

#include <algorithm>
#include <barrier>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "allocators/runner.hpp"
#include "support/random.hpp"
#include "transactions/backend.hpp"

namespace transactions {

namespace {

using keys = std::vector<std::uint64_t>;

/// `prepare` fills the map; `work` is measured, and returns a checksum or 0.
struct workload {
    std::string name;
    std::string_view map;  ///< as in maps::map_names(); "": none
    void (*prepare)(backend&, maps::map*, const keys&);
    std::uint64_t (*work)(backend&, maps::map*, const keys&);
};

std::uint64_t insert_all(backend& /*on*/, maps::map* map, const keys& all) {
    for (const std::uint64_t key : all) {
        map->insert(key, key);
    }
    return 0;
}
std::uint64_t remove_all(backend& /*on*/, maps::map* map, const keys& all) {
    for (const std::uint64_t key : all) {
        map->remove(key);
    }
    return 0;
}
std::uint64_t look_up_all(backend& /*on*/, maps::map* map, const keys& all) {
    std::uint64_t sum = 0;
    for (const std::uint64_t key : all) {
        sum += map->look_up(key).value_or(0);
    }
    return sum;
}
void do_nothing(backend& /*on*/, maps::map* /*map*/, const keys& /*all*/) {}
void fill(backend& on, maps::map* map, const keys& all) { static_cast<void>(insert_all(on, map, all)); }

const std::vector<workload>& workloads() {
    static const std::vector<workload> all = [] {
        std::vector<workload> made{{"tx-objects", "", do_nothing, [](backend& on, maps::map* /*map*/, const keys& of) {
                                        on.change_objects(of.size());
                                        return std::uint64_t{0};
                                    }}};
        for (const auto& [name, map] :
             {std::pair{"tx-hashmap", "hash"}, {"tx-btree", "btree"}, {"tx-rbtree", "rbtree"}}) {
            made.push_back({fmt::format("{}-insert", name), map, do_nothing, insert_all});
            made.push_back({fmt::format("{}-remove", name), map, fill, remove_all});
            made.push_back({fmt::format("{}-look-up", name), map, fill, look_up_all});
        }
        return made;
    }();
    return all;
}

std::unique_ptr<backend> make(const bench::allocation_run& run) {
    if (run.domain != "emulated" && run.domain != "disk") {
        throw bench::backend_unavailable("transactions are measured in the domains emulated and disk");
    }
    const media on = run.domain == "disk" ? media::disk : media::emulated;
    if (run.backend == "holdfast") {
        return make_holdfast(run.directory, on);
    }
    if (run.backend == "libpmemobj") {
        return make_libpmemobj(run.directory, on);
    }
    throw bench::backend_unavailable("it has no transactions");
}

nlohmann::ordered_json described(const bench::allocation_run& run, const bench::pass_result& pass) {
    nlohmann::ordered_json fields = bench::describe_passes(run, pass, pass, {}, {});
    fields["durability"] = "atomic";
    fields["domain"] = run.domain;
    return fields;
}

/// Each thread its own word.
nlohmann::ordered_json change_words(const bench::allocation_run& run) {
    if (run.threads > word_lines) {
        throw bench::backend_unavailable(fmt::format("there are words for {} threads", word_lines));
    }
    const std::unique_ptr<backend> on = make(run);
    const std::uint64_t calls = std::max<std::uint64_t>(bench::calls_of(run), 1);
    std::vector<bench::pass_part> parts(run.threads);
    {
        std::barrier begin(static_cast<std::ptrdiff_t>(run.threads));
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i < run.threads; ++i) {
            threads.emplace_back([&, i] {
                bench::pass_part& part = parts[i];
                on->change_word(calls / 10 + 1, i);  // what a thread's first ones make
                begin.arrive_and_wait();
                const std::int64_t cpu = bench::clock_ns(CLOCK_THREAD_CPUTIME_ID);
                part.start_ns = bench::clock_ns(CLOCK_MONOTONIC);
                on->change_word(calls, i);
                part.end_ns = bench::clock_ns(CLOCK_MONOTONIC);
                part.cpu_ns = bench::clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
                part.calls = calls;
            });
        }
    }
    return described(run, bench::sum_of(parts));
}

}  // namespace

nlohmann::ordered_json run_workload(const bench::allocation_run& run) {
    if (run.workload == "tx-word") {
        return change_words(run);
    }
    if (run.threads != 1) {
        throw bench::backend_unavailable("these transactions are measured with one thread");
    }
    const auto chosen = std::find_if(workloads().begin(), workloads().end(),
                                     [&run](const auto& one) { return run.workload == one.name; });
    const std::unique_ptr<backend> on = make(run);
    bench::random_source random(run.seed);
    keys all(std::max<std::uint64_t>(bench::calls_of(run), 1));
    std::generate(all.begin(), all.end(), [&random] { return random.next(); });
    maps::map* const map = chosen->map.empty() ? nullptr : &on->map(chosen->map);
    chosen->prepare(*on, map, all);
    bench::pass_result pass;
    pass.calls = all.size();
    const std::int64_t cpu = bench::clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const std::int64_t start = bench::clock_ns(CLOCK_MONOTONIC);
    pass.checksum = chosen->work(*on, map, all);
    pass.wall_ns = static_cast<double>(bench::clock_ns(CLOCK_MONOTONIC) - start);
    pass.cpu_ns = static_cast<double>(bench::clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
    if (map != nullptr) {
        pass.checksum += look_up_all(*on, map, all);  // what is left in the map
    }
    return described(run, pass);
}

}  // namespace transactions
