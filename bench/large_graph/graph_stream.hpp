// Edges of a graph that is larger than memory: made one by one, kept nowhere.
#pragma once

#include <cstdint>

#include "adjacency/rmat.hpp"
#include "support/random.hpp"

namespace bench {

/// R-MAT, as generate_rmat().
class graph_stream {
public:
    graph_stream(unsigned scale, std::uint64_t seed) noexcept : random_(seed), scale_(scale) {}

    [[nodiscard]] edge next() noexcept {
        const edge one = rmat_edge(random_, scale_);
        return {scramble(one.source, scale_), scramble(one.target, scale_)};
    }

private:
    random_source random_;
    unsigned scale_;
};

/// A graph that grows over time, in chunks: of a chunk's edges `new_percent` begin at vertices that it brings, the
/// others anywhere among the earlier ones.
class growing_graph {
public:
    growing_graph(std::uint64_t vertices_a_chunk, unsigned new_percent, std::uint64_t seed) noexcept
        : random_(seed), vertices_(vertices_a_chunk), new_percent_(new_percent) {}

    [[nodiscard]] edge next(std::uint64_t chunk) noexcept {
        const bool is_new = random_.below(100) < new_percent_;
        const std::uint64_t known = (chunk + 1) * vertices_;
        return {is_new ? chunk * vertices_ + random_.below(vertices_) : random_.below(known), random_.below(known)};
    }

private:
    random_source random_;
    std::uint64_t vertices_;
    unsigned new_percent_;
};

}  // namespace bench
