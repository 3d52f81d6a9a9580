// Kruskal's minimum spanning tree of complete graphs of order 6 with random weights, each in a block of 168 bytes.
#include <algorithm>
#include <array>
#include <limits>
#include <new>

#include "applications/application.hpp"
#include "support/random.hpp"

namespace bench {

namespace {

constexpr std::size_t block_bytes = 168;
constexpr std::size_t vertices = 6;
constexpr std::size_t edges = vertices * (vertices - 1) / 2;
constexpr std::uint32_t weights = 1'000;
constexpr std::uint64_t graphs_a_proof = 16;  ///< one of so many is computed again, by Prim's algorithm

struct graph {
    struct edge {
        std::uint32_t weight;
        std::uint16_t from;
        std::uint16_t to;
    };
    std::array<edge, edges> edge_list;
    std::array<std::uint32_t, vertices> parents;  ///< of the union-find forest
};
static_assert(sizeof(graph) <= block_bytes);

void draw(graph& own, random_source& random) {
    std::size_t next = 0;
    for (std::uint16_t from = 0; from < vertices; ++from) {
        own.parents[from] = from;
        for (auto to = static_cast<std::uint16_t>(from + 1); to < vertices; ++to) {
            own.edge_list[next++] = {static_cast<std::uint32_t>(1 + random.below(weights)), from, to};
        }
    }
}

std::uint32_t root_of(graph& own, std::uint32_t vertex) {
    while (own.parents[vertex] != vertex) {
        vertex = own.parents[vertex] = own.parents[own.parents[vertex]];
    }
    return vertex;
}

std::uint32_t weight_by_kruskal(graph& own) {
    std::ranges::sort(own.edge_list, {}, &graph::edge::weight);
    std::uint32_t sum = 0;
    for (const graph::edge& one : own.edge_list) {
        const std::uint32_t from = root_of(own, one.from);
        const std::uint32_t to = root_of(own, one.to);
        if (from != to) {
            own.parents[from] = to;
            sum += one.weight;
        }
    }
    return sum;
}

std::uint32_t weight_by_prim(const graph& own) {
    std::array<std::array<std::uint32_t, vertices>, vertices> between{};
    for (const graph::edge& one : own.edge_list) {
        between[one.from][one.to] = between[one.to][one.from] = one.weight;
    }
    std::array<std::uint32_t, vertices> nearest{};  // the least weight of an edge to the tree; 0: in the tree
    std::ranges::copy(between[0], nearest.begin());
    std::uint32_t sum = 0;
    for (std::size_t joined = 1; joined < vertices; ++joined) {
        std::size_t next = 0;
        for (std::size_t vertex = 1; vertex < vertices; ++vertex) {
            if (nearest[vertex] != 0 && (next == 0 || nearest[vertex] < nearest[next])) {
                next = vertex;
            }
        }
        sum += nearest[next];
        nearest[next] = 0;
        for (std::size_t vertex = 1; vertex < vertices; ++vertex) {
            nearest[vertex] = std::min(nearest[vertex], between[next][vertex]);
        }
    }
    return sum;
}

application_demand demand(const allocation_run& /*run*/) { return {1, 1U << 16U}; }

application_outcome work(application_memory& memory, const allocation_run& run, unsigned thread, std::uint64_t calls) {
    const std::uint64_t graphs = std::max<std::uint64_t>(calls / 2, 1);
    random_source random(mix(run.seed + thread));
    std::uint64_t checksum = 0;
    for (std::uint64_t i = 0; i < graphs; ++i) {
        graph& own = *new (memory.allocate(0, block_bytes)) graph;
        draw(own, random);
        const std::uint32_t weight = weight_by_kruskal(own);
        if (i % graphs_a_proof == 0) {
            require_answer(weight == weight_by_prim(own), "kruskal: Prim's tree has another weight");
        }
        checksum = mix(checksum + weight);
        memory.release(0);
    }
    return {graphs * 2, checksum};
}

}  // namespace

const application kruskal{"kruskal", demand, work};

}  // namespace bench
