#include "allocators/allocation_run.hpp"

#include <algorithm>

namespace bench {

workload_kind workload_of(const std::string& name) {
    struct known_workload {
        const char* name;
        workload_kind kind;
    };
    constexpr known_workload workloads[] = {
        {"threadtest", workload_kind::threadtest},
        {"prod-con", workload_kind::prod_con},
        {"larson-small", workload_kind::larson_small},
        {"pair", workload_kind::pair},
        {"batch", workload_kind::batch},
        {"latency", workload_kind::latency},
    };
    for (const known_workload& one : workloads) {
        if (name == one.name) {
            return one.kind;
        }
    }
    throw std::invalid_argument("no such workload: " + name);
}

allocation_demand demand_of(const allocation_run& run) {
    constexpr std::size_t words_a_line = 8;
    std::size_t count = 0;
    std::size_t size = run.size;
    switch (workload_of(run.workload)) {
        case workload_kind::threadtest: count = run.objects; break;
        // Twice the queue: a destination is free again before its turn comes, without looking.
        case workload_kind::prod_con: count = 2 * run.queue; break;
        case workload_kind::larson_small:
            count = run.slots;
            size = larson_greatest_size;
            break;
        case workload_kind::batch: count = run.batch; break;
        case workload_kind::pair:
        case workload_kind::latency: count = run.destinations; break;
    }
    allocation_demand demand;
    demand.destinations_a_thread = (count + words_a_line - 1) / words_a_line * words_a_line;
    demand.destinations = demand.destinations_a_thread * run.threads;
    demand.bytes = std::uint64_t{demand.destinations} * (std::max<std::size_t>(size, 16) * 2);
    return demand;
}

}  // namespace bench
