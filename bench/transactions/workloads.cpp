#include "transactions/workloads.hpp"

#include <algorithm>
#include <array>
#include <functional>

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
    const char* name;
    std::function<void(backend&, const keys&)> prepare;
    std::function<std::uint64_t(backend&, const keys&)> work;
};

void insert_all(backend& on, const keys& all) { on.insert(all.data(), all.size()); }
void do_nothing(backend& /*on*/, const keys& /*all*/) {}

const std::array<workload, 5>& workloads() {
    static const std::array<workload, 5> all{{
        {"tx-word", do_nothing,
         [](backend& on, const keys& of) {
             on.change_word(of.size());
             return std::uint64_t{0};
         }},
        {"tx-objects", do_nothing,
         [](backend& on, const keys& of) {
             on.change_objects(of.size());
             return std::uint64_t{0};
         }},
        {"tx-hashmap-insert", do_nothing,
         [](backend& on, const keys& of) {
             insert_all(on, of);
             return std::uint64_t{0};
         }},
        {"tx-hashmap-remove", insert_all,
         [](backend& on, const keys& of) {
             on.remove(of.data(), of.size());
             return std::uint64_t{0};
         }},
        {"tx-hashmap-look-up", insert_all,
         [](backend& on, const keys& of) { return on.look_up(of.data(), of.size()); }},
    }};
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

}  // namespace

nlohmann::ordered_json run_workload(const bench::allocation_run& run) {
    if (run.threads != 1) {
        throw bench::backend_unavailable("transactions are measured with one thread");
    }
    const auto* const chosen = std::find_if(workloads().begin(), workloads().end(),
                                            [&run](const auto& one) { return run.workload == one.name; });
    const std::unique_ptr<backend> on = make(run);
    bench::random_source random(run.seed);
    keys all(std::max<std::uint64_t>(bench::calls_of(run), 1));
    std::generate(all.begin(), all.end(), [&random] { return random.next(); });
    chosen->prepare(*on, all);
    bench::pass_result pass;
    pass.calls = all.size();
    const std::int64_t cpu = bench::clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const std::int64_t start = bench::clock_ns(CLOCK_MONOTONIC);
    pass.checksum = chosen->work(*on, all);
    pass.wall_ns = static_cast<double>(bench::clock_ns(CLOCK_MONOTONIC) - start);
    pass.cpu_ns = static_cast<double>(bench::clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
    pass.checksum += on->look_up(all.data(), all.size());  // what is left in the map
    nlohmann::ordered_json fields = bench::describe_passes(run, pass, pass, {}, {});
    fields["durability"] = "atomic";
    fields["domain"] = run.domain;
    return fields;
}

}  // namespace transactions
