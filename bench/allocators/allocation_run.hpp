// One measured run of holdfast-bench, handed to the process that measures; the result comes back as one JSON object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "allocators/sizes.hpp"

namespace bench {

struct allocation_run {
    std::string backend = "holdfast";
    std::string workload = "pair";
    std::string durability = "atomic";
    std::string domain = "emulated";
    std::string directory;  ///< empty, for this run alone
    unsigned threads = 1;
    double scale = 0;                        ///< millions of calls a thread in the pass for throughput; 0: calls_of
    std::uint64_t latency_calls = 0;         ///< calls a thread, each timed; 0: as the workload says
    std::uint64_t seed = 0;                  ///< of sizes and of slots
    std::size_t size = 64;                   ///< bytes of a block, unless the workload has its own
    std::size_t batch = 16;                  ///< blocks of one call of the workload batch
    std::size_t destinations = 1;            ///< pair, latency: a thread goes round so many
    std::size_t objects = 100'000;           ///< threadtest: allocated by a thread before it frees
    std::size_t queue = 1'024;               ///< prod-con: what a producer may be ahead
    std::size_t slots = 1'000;               ///< larson-small: blocks of a thread
    std::size_t handover_steps = 10'000;     ///< larson: steps after which the slots go to another thread
    std::size_t large_objects = 1'000;       ///< threadtest-512k: as objects
    std::size_t large_slots = 1'000;         ///< larson-large: as slots
    std::size_t random_objects = 2'000;      ///< random-*: as objects
    std::size_t dbms_objects = 5'000;        ///< dbmstest: allocated in an iteration by all threads together
    std::size_t shbench_slots = 8'192;       ///< shbench, idle-caches: blocks of a thread
    std::size_t latency_blocks = 1'000'000;  ///< latency-million: allocated by a thread before it frees
    std::uint64_t frag_phase_mib = 1'280;    ///< frag-w1 to -w4: allocated in a phase by all threads together
    std::uint64_t frag_live_mib = 256;       ///< frag-w1 to -w4: live at the most, of all threads together
    unsigned rest_seconds = 0;               ///< before space is measured, for what decays with time
    bool cold = false;                       ///< one timed pass that begins with an empty heap
    std::size_t bodies = 4'000;              ///< barnes-hut: of each thread
    std::size_t relations = 1'024;           ///< vacation: of each table of a thread
    std::size_t tiles = 32;                  ///< cholesky: of a side of a thread's matrix
    std::string cfrac_number;                /**< cfrac: composite; empty: two primes, 28 digits */
    std::uint64_t keys = 1'000'000;          ///< index-*, ycsb-*: entries that are loaded, inserted or removed
    std::string distribution = "uniform";    ///< index-update, -find, -scan: of the keys; or zipf
};

enum class workload_kind : std::uint8_t {
    threadtest,
    prod_con,
    larson_small,
    larson_medium,
    larson_big,
    pair,
    batch,
    latency,
    threadtest_large,
    larson_large,
    dbmstest,
    random_sizes,  ///< random-even, random-small, random-large
    shbench,
    latency_million,
    fragmentation,  ///< frag-w1 to frag-w4
    idle_caches,
    application,   ///< bench/applications
    transactions,  ///< bench/transactions
    index,         ///< bench/indexes
};
/// Throws std::invalid_argument.
[[nodiscard]] workload_kind workload_of(const std::string& name);
/// All names, in the order of docs/benchmarks/holdfast-bench.md.
[[nodiscard]] std::vector<std::string> workload_names();
/// The title of a table: the workload, and the distribution of its keys where it is not uniform.
[[nodiscard]] std::string title_of(const allocation_run& run);
/// Blocks of up to 128 or 512 KiB, each touched at both ends.
[[nodiscard]] constexpr bool is_large(workload_kind kind) noexcept {
    return kind == workload_kind::threadtest_large || kind == workload_kind::larson_large ||
           kind == workload_kind::larson_big || kind == workload_kind::dbmstest || kind == workload_kind::random_sizes;
}
/// Space is measured, not only calls: the heap begins small and grows.
[[nodiscard]] constexpr bool measures_space(workload_kind kind) noexcept {
    return kind == workload_kind::fragmentation || kind == workload_kind::idle_caches;
}
/// Its passes: one that checks, one that times every call.
[[nodiscard]] constexpr bool is_for_latency(workload_kind kind) noexcept {
    return kind == workload_kind::latency || kind == workload_kind::latency_million;
}
/// Of the workload random-*.
[[nodiscard]] random_sizes random_sizes_of(const std::string& workload);
/// The sizes of its blocks.
[[nodiscard]] size_range sizes_of(const allocation_run& run);
/// Calls of a thread in the pass for throughput: the scale, or 2 million; for large blocks half a million (50
/// iterations of DBMStest with one thread), applications and idle-caches 0.2 million, an index a million, scans 0.1
/// million. Fragbench makes as many as its phases need; index-insert, -remove and -open, one for each key.
[[nodiscard]] std::uint64_t calls_of(const allocation_run& run);

/// When space is measured: before the first block is allocated; when all that shall live do.
enum class resting : std::uint8_t { at_start, at_end };

/// DBMStest: what a thread allocates in an iteration, and has at most.
[[nodiscard]] std::size_t dbms_objects_of_thread(const allocation_run& run);
[[nodiscard]] std::size_t dbms_slots(const allocation_run& run);

/// This machine or this build does not have what a run needs; the message says what to do.
class backend_unavailable : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// What the allocator itself counted.
struct protocol_totals {
    bool known = false;
    std::uint64_t durable_records = 0;
    std::uint64_t fences = 0;
    std::uint64_t lines_flushed = 0;
    std::uint64_t reflushes = 0;
    std::uint64_t media_bytes = 0;
    std::uint64_t checkpoints = 0;
    std::uint64_t longest_checkpoint_ns = 0;  ///< of the whole run, not a sum
};

/// What a backend has to provide for.
struct allocation_demand {
    std::size_t destinations_a_thread = 0;  ///< a multiple of a cache line's words
    std::size_t destinations = 0;           ///< of all threads
    std::uint64_t bytes = 0;                ///< of all blocks live at the same time, with some room
};
[[nodiscard]] allocation_demand demand_of(const allocation_run& run);

/// Runs it in this process.
using run_function = nlohmann::ordered_json (*)(const allocation_run&);
nlohmann::ordered_json run_holdfast_allocations(const allocation_run& run);
nlohmann::ordered_json run_libpmemobj_allocations(const allocation_run& run);
nlohmann::ordered_json run_jemalloc_allocations(const allocation_run& run);
nlohmann::ordered_json run_mimalloc_allocations(const allocation_run& run);
nlohmann::ordered_json run_glibc_allocations(const allocation_run& run);
nlohmann::ordered_json run_memkind_allocations(const allocation_run& run);
nlohmann::ordered_json run_interprocess_allocations(const allocation_run& run);
nlohmann::ordered_json run_raw_allocations(const allocation_run& run);
nlohmann::ordered_json run_no_allocations(const allocation_run& run);

}  // namespace bench
