// The recursive matrix (R-MAT) generator of Chakrabarti, Zhan and Faloutsos (2004), with the parameters of Graph500.
#pragma once

#include <cstdint>
#include <vector>

#include "support/random.hpp"

namespace bench {

struct edge {
    std::uint64_t source;
    std::uint64_t target;
};

struct rmat_parameters {
    unsigned scale = 17;  ///< 2^scale vertices
    unsigned edges_per_vertex = 16;
    std::uint64_t seed = 0;
};

/// a, b, c in 1/10,000; d is the rest.
inline constexpr std::uint64_t rmat_a = 5'700;
inline constexpr std::uint64_t rmat_b = 1'900;
inline constexpr std::uint64_t rmat_c = 1'900;

/// A bijection of [0, 2^scale): R-MAT gives vertices with small numbers the most edges; real identifiers know no such
/// order.
[[nodiscard]] constexpr std::uint64_t scramble(std::uint64_t vertex, unsigned scale) noexcept {
    const std::uint64_t mask = (std::uint64_t{1} << scale) - 1;
    const unsigned half = scale / 2 + 1;
    vertex = (vertex * 0x9e3779b97f4a7c15U) & mask;  // odd factors and xor with a right shift are bijective
    vertex ^= vertex >> half;
    vertex = (vertex * 0xbf58476d1ce4e5b9U) & mask;
    return vertex ^ (vertex >> half);
}

/// The vertices are not scrambled yet.
[[nodiscard]] inline edge rmat_edge(random_source& random, unsigned scale) noexcept {
    edge one{0, 0};
    for (unsigned level = 0; level < scale; ++level) {
        const std::uint64_t dice = random.below(10'000);
        const bool right = dice >= rmat_a && (dice < rmat_a + rmat_b || dice >= rmat_a + rmat_b + rmat_c);
        const bool down = dice >= rmat_a + rmat_b;
        one.source = one.source * 2 + (down ? 1 : 0);
        one.target = one.target * 2 + (right ? 1 : 0);
    }
    return one;
}

[[nodiscard]] inline std::vector<edge> generate_rmat(const rmat_parameters& parameters) {
    random_source random(parameters.seed);
    std::vector<edge> edges((std::uint64_t{1} << parameters.scale) * parameters.edges_per_vertex);
    for (edge& one : edges) {
        const edge plain = rmat_edge(random, parameters.scale);
        one = {scramble(plain.source, parameters.scale), scramble(plain.target, parameters.scale)};
    }
    return edges;
}

}  // namespace bench
