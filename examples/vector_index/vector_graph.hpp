// An index of vectors in a heap: which vectors are the nearest to this one? It is a hierarchical navigable small world
// graph (Malkov and Yashunin, 2016): each vector is a node, linked with some of its nearest ones; few nodes are on
// higher levels, too, where the links are longer. A search goes down from the one entry, level by level.
//
// Other libraries for such graphs keep raw pointers, locks and tables of functions in their objects, which cannot be
// opened at another address, nor read-only by several processes. Here all is numbers in vectors of the heap.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <holdfast/containers.hpp>

namespace vector_index {

using node = std::uint32_t;

/// What lies in the heap, as the object "graph".
struct stored_graph {
    using allocator_type = holdfast::allocator<std::byte>;

    stored_graph(std::uint32_t length, std::uint32_t most_links, const allocator_type& heap)
        : dimensions(length), links(most_links), vectors(heap), ground(heap), levels(heap), upper(heap), begins(heap) {}

    [[nodiscard]] std::span<const float> vector_of(node of) const {
        return {vectors.data() + std::size_t{of} * dimensions, dimensions};
    }
    [[nodiscard]] std::size_t most_links(unsigned level) const noexcept { return level == 0 ? 2 * links : links; }
    /// Where the links lie: their number, then room for most_links() of them.
    template <class Graph>
    [[nodiscard]] static auto place_of(Graph& in, node of, unsigned level) {
        return level == 0 ? in.ground.data() + of * (in.most_links(0) + 1)
                          : in.upper.data() + in.begins[of] + (level - 1) * (in.most_links(1) + 1);
    }
    /// The nodes that a node is linked with on a level that it is on.
    [[nodiscard]] std::span<const node> links_of(node of, unsigned level) const {
        const node* const place = place_of(*this, of, level);
        return {place + 1, *place};
    }

    std::uint32_t dimensions;
    std::uint32_t links;  ///< of a node, on each level; twice as many on the ground
    std::uint32_t size = 0;
    std::uint32_t top = 0;  ///< the highest level
    node entry = 0;         ///< a node on it
    holdfast::vector<float> vectors;
    holdfast::vector<node> ground;  ///< links on level 0
    holdfast::vector<std::uint8_t> levels;
    holdfast::vector<node> upper;            ///< links on the levels above
    holdfast::vector<std::uint32_t> begins;  ///< of a node: where its links begin in `upper`
};

struct neighbour {
    float distance = 0;  ///< the square of the Euclidean distance
    node number = 0;
    [[nodiscard]] friend auto operator<=>(const neighbour&, const neighbour&) = default;
};

/// Searches a graph. Thread safety: one thread; any number of searchers, while nobody adds.
class searcher {
public:
    explicit searcher(const stored_graph& graph) : graph_(&graph) {}

    /// The nearest vectors, the nearest one first. `effort`: how many candidates are kept; more find more.
    [[nodiscard]] std::vector<neighbour> nearest(std::span<const float> to, std::size_t count, std::size_t effort);
    [[nodiscard]] float distance(std::span<const float> from, node to) const;
    /// Where to begin on a level: what a search from the entry finds on the levels above it. On each it keeps several
    /// nodes, so that a group of vectors that is far from all others is found.
    [[nodiscard]] std::vector<neighbour> descend(std::span<const float> to, unsigned level);
    /// The nearest `effort` nodes of a level, the nearest one first.
    [[nodiscard]] std::vector<neighbour> search_level(std::span<const float> to, const std::vector<neighbour>& from,
                                                      unsigned level, std::size_t effort);

private:
    static constexpr std::size_t kept_above = 16;

    [[nodiscard]] bool visit(node at);

    const stored_graph* graph_;
    std::vector<std::uint32_t> seen_;  ///< of each node: the last search that has seen it
    std::uint32_t searches_ = 0;
};

/// Adds vectors to a graph. The graph depends on the vectors and their order alone: one that was killed and went on is
/// the same as one that was not.
class builder {
public:
    explicit builder(stored_graph& graph, std::size_t effort) : graph_(&graph), search_(graph), effort_(effort) {}

    /// Takes the room for so many vectors, so that no vector of the heap moves.
    void reserve(std::size_t count);
    void add(std::span<const float> vector);

private:
    [[nodiscard]] std::vector<neighbour> choose(const std::vector<neighbour>& candidates, std::size_t most) const;
    void set_links(node of, unsigned level, const std::vector<neighbour>& to);
    void link_back(node from, neighbour to, unsigned level);

    stored_graph* graph_;
    searcher search_;
    std::size_t effort_;
};

/// Whether every link leads to a node of its level; a checksum of the graph.
[[nodiscard]] std::pair<bool, std::uint64_t> examine(const stored_graph& graph);

}  // namespace vector_index
