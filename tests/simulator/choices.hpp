// All, or a telling part, of the ways in which a crash can choose among things that may or may not have become durable.
//
// A choice point has some outcomes 0 .. n-1: 0 is "nothing of it", n-1 is "all of it". An atom of a write has two; the
// stores to one cache line, of which any prefix may be on media, have one more than there are stores.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace holdfast::simulator {

using outcome = std::uint16_t;

struct choice_space {
    /// The number of outcomes of each choice point, in the order in which the program made them; each at least 2.
    std::vector<outcome> outcomes;
    /// Indices at which an operation's choice points begin; ascending. Empty: each point is its own operation.
    std::vector<std::uint32_t> operations;
};

struct choice_limits {
    /// Up to so many combinations, all of them are visited.
    std::uint64_t exhaustive = 4096;
    /// Else: none, all, each point alone and each point missing (up to so many points, evenly spread), ...
    std::uint64_t singles = 512;
    /// ... each operation alone, missing, and cut off in its midst (up to so many prefixes, evenly spread), and so many
    /// random ones.
    std::uint64_t prefixes = 512;
    std::uint64_t samples = 256;
};

/// Visits combinations, the same ones for the same arguments, until a visit answers false. Returns false if one did.
bool for_each_choice(const choice_space& space, const choice_limits& limits, std::uint64_t seed,
                     const std::function<bool(std::span<const outcome>)>& visit);

}  // namespace holdfast::simulator
