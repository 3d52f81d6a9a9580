// All, or a representative part, of the ways in which a crash can decide what became durable.
//
// A choice point has outcomes 0 to n-1: 0 means nothing of it, n-1 all of it. An atom of a write has two outcomes. The
// stores to one cache line, of which any prefix may be on media, have one more than there are stores.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace holdfast::simulator {

using outcome = std::uint16_t;

struct choice_space {
    /// Outcomes of each choice point, at least 2, in program order.
    std::vector<outcome> outcomes;
    /// Ascending indices at which an operation's choice points begin. Empty: each point is its own operation.
    std::vector<std::uint32_t> operations;
};

struct choice_limits {
    /// Up to this many combinations, all are visited.
    std::uint64_t exhaustive = 4096;
    /// Beyond: none, all, each point alone and each point missing (at most this many points, evenly spread), ...
    std::uint64_t singles = 512;
    /// ... each operation alone, missing, and cut off inside (at most this many prefixes, evenly spread), and this many
    /// random combinations.
    std::uint64_t prefixes = 512;
    std::uint64_t samples = 256;
};

/// Visits combinations until a visit returns false, and then returns false. The same arguments give the same ones.
bool for_each_choice(const choice_space& space, const choice_limits& limits, std::uint64_t seed,
                     const std::function<bool(std::span<const outcome>)>& visit);

}  // namespace holdfast::simulator
