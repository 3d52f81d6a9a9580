// The values by which two graphs, and two answers, are compared: computed once from the heap, and once from the text by
// code that shares nothing with it.
//
// The graph. Every name is a node. It is a package if a stanza describes it. Other names are known because a package
// depends on them or provides them (virtual packages, and packages that the index lacks). If an index describes a
// package several times (security updates, several architectures), the newest version by Debian's order counts; of
// equal versions the first. A name that only superseded versions mention does not count.
//
// The checksum is a sum modulo 2^64, so the order in which a graph stores its parts does not matter. Its terms:
//   'N' for each name: name, package or not, version, installed size, then, in the order of the index: its dependencies
//       (name, kind, group of alternatives, constraint) and the names it provides;
//   'R' for each pair (name, dependent), once;
//   'P' for each pair (name, provider), once.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace package_graph {

struct summary {
    std::uint64_t stanzas = 0;   ///< stanzas of the input that are in the graph
    std::uint64_t packages = 0;  ///< names that a stanza describes
    std::uint64_t names = 0;     ///< packages, virtual packages and missing ones
    std::uint64_t edges = 0;     ///< dependencies, each alternative counted, and provided names
    std::uint64_t checksum = 0;

    [[nodiscard]] friend bool operator==(const summary&, const summary&) = default;
};

struct ranked_name {
    std::string name;
    std::uint64_t dependents = 0;

    [[nodiscard]] friend bool operator==(const ranked_name&, const ranked_name&) = default;
};

/// What one package needs. `reachable`: packages on any path of dependencies, through all alternatives and all
/// providers. `chosen`: through the first available alternative of each group alone (a package, or else the first
/// provider by name), about as apt chooses on an empty system. Both count the package itself.
struct closure {
    std::uint64_t reachable = 0;
    std::uint64_t reachable_checksum = 0;  ///< of their names
    std::uint64_t chosen = 0;
    std::uint64_t chosen_checksum = 0;
    std::uint64_t chosen_kib = 0;  ///< their installed size, KiB

    [[nodiscard]] friend bool operator==(const closure&, const closure&) = default;
};

struct question {
    std::string from;
    std::string to;
    std::string closure_of;
};

struct answers {
    std::vector<ranked_name> most_depended_on;  ///< by dependents, then by name
    std::vector<std::string> path;              ///< from `from` to `to`, both included; empty where there is none
    closure needs;
};

inline constexpr std::size_t rank_length = 10;

}  // namespace package_graph
