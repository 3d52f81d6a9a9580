// The program that all backends run: an adjacency list, built edge by edge. A backend gives containers and where they
// live.
//
// With one thread: one map, no locks. With more: the vertices are dealt by hash to banks, each a map with a lock, as in
// Metall's multi-bank adjacency list. Each thread inserts its share of the edges, many of a bank under one lock: with a
// lock for each edge, the locks would be measured.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "adjacency/rmat.hpp"
#include "support/random.hpp"
#include "support/samples.hpp"

namespace bench {

struct adjacency_workload {
    rmat_parameters graph;
    unsigned threads = 1;
    unsigned banks = 64;              ///< for more than one thread
    std::uint64_t file_bytes = 0;     ///< size of the (sparse) file of backends that cannot grow
    std::filesystem::path directory;  ///< empty, for this run alone
};

struct adjacency_outcome {
    double create_ms = 0;   ///< an empty store with its empty maps
    double build_ms = 0;    ///< all edges inserted
    double cpu_ms = 0;      ///< of that, in all threads
    double durable_ms = 0;  ///< then, until the graph survives a power loss; 0 where it never does
    std::uint64_t vertices = 0;
    std::uint64_t edges = 0;
    std::uint64_t checksum = 0;
    std::uint64_t charged_bytes = 0;
};

/// One bank's lock; a cache line of its own.
struct alignas(64) bank_lock {
    std::mutex mutex;
};

/// How many edges of a bank a thread gathers.
inline constexpr std::size_t batch_edges = 128;

/// By the high bits of the mixed number: the maps' hash uses the number itself.
[[nodiscard]] inline std::size_t bank_of(std::uint64_t vertex, std::size_t banks) noexcept {
    return static_cast<std::size_t>(((mix(vertex) >> 32U) * banks) >> 32U);
}

/// `list_allocator()` constructs an empty list inside the store.
template <class Backend>
concept adjacency_backend = requires(Backend backend, std::size_t banks) {
    typename Backend::map_type;
    { backend.create_banks(banks) } -> std::same_as<std::span<typename Backend::map_type>>;
    backend.list_allocator();
    backend.make_durable();
    /// Opens anew what was made durable; where nothing is, the same banks.
    { backend.reopen(banks) } -> std::same_as<std::span<typename Backend::map_type>>;
    { backend.charged_bytes() } -> std::same_as<std::uint64_t>;
};

template <adjacency_backend Backend>
void insert_edge(typename Backend::map_type& map, const edge& one, Backend& backend) {
    map.try_emplace(one.source, backend.list_allocator()).first->second.push_back(one.target);
}

/// One thread's way into the banks.
template <adjacency_backend Backend>
class bank_inserter {
public:
    using map_type = typename Backend::map_type;

    bank_inserter(std::span<map_type> banks, std::span<bank_lock> locks, Backend& backend)
        : banks_(banks), locks_(locks), backend_(backend), gathered_(banks.size()) {
        for (auto& edges : gathered_) {
            edges.reserve(batch_edges);
        }
    }
    void insert(const edge& one) {
        const std::size_t bank = bank_of(one.source, banks_.size());
        gathered_[bank].push_back(one);
        if (gathered_[bank].size() == batch_edges) {
            pass_on(bank);
        }
    }
    void finish() {
        for (std::size_t bank = 0; bank < banks_.size(); ++bank) {
            pass_on(bank);
        }
    }

private:
    void pass_on(std::size_t bank) {
        const std::lock_guard guard(locks_[bank].mutex);
        for (const edge& one : gathered_[bank]) {
            insert_edge(banks_[bank], one, backend_);
        }
        gathered_[bank].clear();
    }

    std::span<map_type> banks_;
    std::span<bank_lock> locks_;
    Backend& backend_;
    std::vector<std::vector<edge>> gathered_;
};

template <adjacency_backend Backend>
void build_with_locks(std::span<typename Backend::map_type> banks, const std::vector<edge>& edges, unsigned threads,
                      Backend& backend) {
    std::vector<bank_lock> locks(banks.size());
    const auto insert_share = [&](std::size_t begin, std::size_t end) {
        bank_inserter<Backend> inserter(banks, locks, backend);
        for (std::size_t i = begin; i < end; ++i) {
            inserter.insert(edges[i]);
        }
        inserter.finish();
    };
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < threads; ++i) {
        workers.emplace_back(insert_share, edges.size() * i / threads, edges.size() * (i + 1) / threads);
    }
}

/// Independent of the order in which edges and vertices lie.
template <class Map>
void add_up(std::span<Map> banks, adjacency_outcome& outcome) {
    for (const Map& bank : banks) {
        outcome.vertices += bank.size();
        for (const auto& [source, targets] : bank) {
            outcome.edges += targets.size();
            for (const std::uint64_t target : targets) {
                outcome.checksum += mix(mix(source) + target);
            }
        }
    }
}

template <adjacency_backend Backend>
adjacency_outcome run_adjacency(const adjacency_workload& workload) {
    const std::vector<edge> edges = generate_rmat(workload.graph);
    const std::size_t bank_count = workload.threads == 1 ? 1 : workload.banks;
    adjacency_outcome outcome;
    const stopwatch creation;
    Backend backend(workload);
    const auto banks = backend.create_banks(bank_count);
    outcome.create_ms = creation.milliseconds();

    const double cpu_before = cpu_milliseconds();
    const stopwatch building;
    if (workload.threads == 1) {
        for (const edge& one : edges) {
            insert_edge(banks[0], one, backend);
        }
    } else {
        build_with_locks(banks, edges, workload.threads, backend);
    }
    outcome.build_ms = building.milliseconds();
    outcome.cpu_ms = cpu_milliseconds() - cpu_before;

    const stopwatch writing;
    backend.make_durable();
    outcome.durable_ms = Backend::is_durable ? writing.milliseconds() : 0;
    add_up(backend.reopen(bank_count), outcome);
    outcome.charged_bytes = backend.charged_bytes();
    return outcome;
}

/// The backends, each in its own file.
adjacency_outcome run_holdfast(const adjacency_workload& workload);
adjacency_outcome run_interprocess(const adjacency_workload& workload);
adjacency_outcome run_std(const adjacency_workload& workload);
adjacency_outcome run_boost_volatile(const adjacency_workload& workload);

}  // namespace bench
