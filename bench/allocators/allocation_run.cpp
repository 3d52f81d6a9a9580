#include "allocators/allocation_run.hpp"

#include <algorithm>

#include "allocators/space_workloads.hpp"
#include "applications/application.hpp"

namespace bench {

namespace {

struct known_workload {
    const char* name;
    workload_kind kind;
};
constexpr known_workload workloads[] = {
    {"pair", workload_kind::pair},
    {"batch", workload_kind::batch},
    {"threadtest", workload_kind::threadtest},
    {"prod-con", workload_kind::prod_con},
    {"shbench", workload_kind::shbench},
    {"larson-small", workload_kind::larson_small},
    {"larson-medium", workload_kind::larson_medium},
    {"larson-256k", workload_kind::larson_big},
    {"larson-large", workload_kind::larson_large},
    {"random-even", workload_kind::random_sizes},
    {"random-small", workload_kind::random_sizes},
    {"random-large", workload_kind::random_sizes},
    {"dbmstest", workload_kind::dbmstest},
    {"threadtest-512k", workload_kind::threadtest_large},
    {"latency", workload_kind::latency},
    {"latency-million", workload_kind::latency_million},
    {"frag-w1", workload_kind::fragmentation},
    {"frag-w2", workload_kind::fragmentation},
    {"frag-w3", workload_kind::fragmentation},
    {"frag-w4", workload_kind::fragmentation},
    {"idle-caches", workload_kind::idle_caches},
    {"tx-word", workload_kind::transactions},
    {"tx-objects", workload_kind::transactions},
    {"tx-hashmap-insert", workload_kind::transactions},
    {"tx-hashmap-remove", workload_kind::transactions},
    {"tx-hashmap-look-up", workload_kind::transactions},
    {"tx-btree-insert", workload_kind::transactions},
    {"tx-btree-remove", workload_kind::transactions},
    {"tx-btree-look-up", workload_kind::transactions},
    {"tx-rbtree-insert", workload_kind::transactions},
    {"tx-rbtree-remove", workload_kind::transactions},
    {"tx-rbtree-look-up", workload_kind::transactions},
    {"index-insert", workload_kind::index},
    {"index-update", workload_kind::index},
    {"index-find", workload_kind::index},
    {"index-scan", workload_kind::index},
    {"index-remove", workload_kind::index},
    {"index-open", workload_kind::index},
    {"ycsb-a", workload_kind::index},
    {"ycsb-b", workload_kind::index},
    {"ycsb-c", workload_kind::index},
    {"ycsb-d", workload_kind::index},
    {"ycsb-e", workload_kind::index},
    {"ycsb-f", workload_kind::index},
};

}  // namespace

workload_kind workload_of(const std::string& name) {
    for (const known_workload& one : workloads) {
        if (name == one.name) {
            return one.kind;
        }
    }
    if (find_application(name) != nullptr) {
        return workload_kind::application;
    }
    throw std::invalid_argument("no such workload: " + name);
}

std::vector<std::string> workload_names() {
    std::vector<std::string> names;
    for (const known_workload& one : workloads) {
        names.emplace_back(one.name);
    }
    for (const application& one : all_applications()) {
        names.emplace_back(one.name);
    }
    return names;
}

std::string title_of(const allocation_run& run) {
    const bool skewed = workload_of(run.workload) == workload_kind::index && run.distribution != "uniform";
    return skewed ? run.workload + ", " + run.distribution : run.workload;
}

random_sizes random_sizes_of(const std::string& workload) {
    return random_sizes(workload == "random-small" ? 0.01 : workload == "random-large" ? 0.7 : 0);
}

size_range sizes_of(const allocation_run& run) {
    switch (workload_of(run.workload)) {
        case workload_kind::larson_small: return small_sizes;
        case workload_kind::larson_medium: return medium_sizes;
        case workload_kind::larson_big: return big_sizes;
        case workload_kind::random_sizes: return random_sizes_of(run.workload).sizes();
        case workload_kind::larson_large:
        case workload_kind::dbmstest: return large_sizes;
        case workload_kind::threadtest_large: return {threadtest_large_size, threadtest_large_size};
        case workload_kind::shbench:
        case workload_kind::idle_caches: return shbench_sizes;
        case workload_kind::fragmentation: return fragmentation_of(run.workload).sizes();
        default: return {run.size, run.size};
    }
}

namespace {

double usual_millions(const allocation_run& run) {
    const workload_kind kind = workload_of(run.workload);
    switch (kind) {
        case workload_kind::application:
        case workload_kind::idle_caches: return 0.2;
        case workload_kind::transactions: return run.domain == "disk" ? 0.001 : run.workload == "tx-word" ? 1 : 0.1;
        case workload_kind::index: return run.workload == "index-scan" || run.workload == "ycsb-e" ? 0.1 : 1;
        default: return is_large(kind) ? 0.5 : 2;
    }
}

}  // namespace

std::uint64_t calls_of(const allocation_run& run) {
    return static_cast<std::uint64_t>((run.scale != 0 ? run.scale : usual_millions(run)) * 1e6);
}

std::size_t dbms_objects_of_thread(const allocation_run& run) {
    return std::max<std::size_t>(run.dbms_objects / run.threads, 1);
}

std::size_t dbms_slots(const allocation_run& run) {
    const std::size_t fresh = dbms_objects_of_thread(run);
    return fresh + fresh / 9 + 4;  // what remains of r blocks is at most r / 10 + 1
}

namespace {

/// Destinations of a thread.
std::size_t destinations_of(const allocation_run& run, workload_kind kind) {
    switch (kind) {
        case workload_kind::threadtest: return run.objects;
        // Twice the queue: a destination is free again before its turn comes, without looking.
        case workload_kind::prod_con: return 2 * run.queue;
        case workload_kind::larson_small:
        case workload_kind::larson_medium: return run.slots;
        case workload_kind::random_sizes: return run.random_objects;
        case workload_kind::threadtest_large: return run.large_objects;
        case workload_kind::larson_big:
        case workload_kind::larson_large: return run.large_slots;
        case workload_kind::dbmstest: return dbms_slots(run);
        case workload_kind::batch: return run.batch;
        case workload_kind::shbench:
        case workload_kind::idle_caches: return run.shbench_slots;
        case workload_kind::latency_million: return run.latency_blocks;
        case workload_kind::fragmentation: return fragmentation_slots(run);
        case workload_kind::application: return find_application(run.workload)->demand(run).blocks;
        case workload_kind::transactions:
        case workload_kind::index:
        case workload_kind::pair:
        case workload_kind::latency: break;
    }
    return run.destinations;
}

}  // namespace

allocation_demand demand_of(const allocation_run& run) {
    constexpr std::size_t words_a_line = 8;
    const workload_kind kind = workload_of(run.workload);
    const std::size_t count = destinations_of(run, kind);
    allocation_demand demand;
    demand.destinations_a_thread = (count + words_a_line - 1) / words_a_line * words_a_line;
    demand.destinations = demand.destinations_a_thread * run.threads;
    const size_range sizes = sizes_of(run);
    const std::size_t room =
        is_large(kind) ? sizes.middle() + sizes.middle() / 4 : 2 * std::max<std::size_t>(sizes.greatest, 16);
    if (kind == workload_kind::fragmentation) {
        constexpr std::uint64_t worst = 4;  // PMAlloc's worst allocator takes 2.8 times what is live
        demand.bytes = worst * (run.frag_live_mib << 20U);
    } else if (kind == workload_kind::application) {
        demand.bytes = find_application(run.workload)->demand(run).bytes * run.threads;
    } else {
        demand.bytes = std::uint64_t{demand.destinations} * room;
    }
    return demand;
}

}  // namespace bench
