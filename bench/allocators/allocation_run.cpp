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
        {"threadtest-512k", workload_kind::threadtest_large},
        {"larson-large", workload_kind::larson_large},
        {"dbmstest", workload_kind::dbmstest},
    };
    for (const known_workload& one : workloads) {
        if (name == one.name) {
            return one.kind;
        }
    }
    throw std::invalid_argument("no such workload: " + name);
}

size_range sizes_of(const allocation_run& run) {
    switch (workload_of(run.workload)) {
        case workload_kind::larson_small: return small_sizes;
        case workload_kind::larson_large:
        case workload_kind::dbmstest: return large_sizes;
        case workload_kind::threadtest_large: return {threadtest_large_size, threadtest_large_size};
        default: return {run.size, run.size};
    }
}

std::uint64_t calls_of(const allocation_run& run) {
    const double usual = is_large(workload_of(run.workload)) ? 0.5 : 2;
    return static_cast<std::uint64_t>((run.scale != 0 ? run.scale : usual) * 1e6);
}

std::size_t dbms_objects_of_thread(const allocation_run& run) {
    return std::max<std::size_t>(run.dbms_objects / run.threads, 1);
}

std::size_t dbms_slots(const allocation_run& run) {
    const std::size_t fresh = dbms_objects_of_thread(run);
    return fresh + fresh / 9 + 4;  // what remains of r blocks is at most r / 10 + 1
}

allocation_demand demand_of(const allocation_run& run) {
    constexpr std::size_t words_a_line = 8;
    const workload_kind kind = workload_of(run.workload);
    std::size_t count = 0;
    switch (kind) {
        case workload_kind::threadtest: count = run.objects; break;
        // Twice the queue: a destination is free again before its turn comes, without looking.
        case workload_kind::prod_con: count = 2 * run.queue; break;
        case workload_kind::larson_small: count = run.slots; break;
        case workload_kind::threadtest_large: count = run.large_objects; break;
        case workload_kind::larson_large: count = run.large_slots; break;
        case workload_kind::dbmstest: count = dbms_slots(run); break;
        case workload_kind::batch: count = run.batch; break;
        case workload_kind::pair:
        case workload_kind::latency: count = run.destinations; break;
    }
    allocation_demand demand;
    demand.destinations_a_thread = (count + words_a_line - 1) / words_a_line * words_a_line;
    demand.destinations = demand.destinations_a_thread * run.threads;
    const size_range sizes = sizes_of(run);
    const std::size_t room =
        is_large(kind) ? sizes.middle() + sizes.middle() / 4 : 2 * std::max<std::size_t>(sizes.greatest, 16);
    demand.bytes = std::uint64_t{demand.destinations} * room;
    return demand;
}

}  // namespace bench
