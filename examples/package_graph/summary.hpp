// What is compared when two graphs are said to be the same, and when answers are: plain values, computed once from the
// heap and once from the text by code that shares nothing with it.
//
// What a graph is. A name is a node. It is a *package* where a stanza describes it; else it is known only because a
// package depends on it or provides it (a virtual package, or one that the index does not have). Where an index
// describes one package several times (a release and its security updates, several architectures), the newest version
// counts, by Debian's order; of equal versions the first. A superseded version leaves nothing behind: a name that only
// it mentioned does not count any more.
//
// The checksum is a sum modulo 2^64, so the order in which a graph stores things does not matter. Its terms:
//   'N' for each name: name, package or not, version, installed size, then, in the order of the index: its dependencies
//       (name, kind, group of alternatives, constraint) and the names it provides;
//   'R' for each pair (name, dependent), once however often the dependent names it;
//   'P' for each pair (name, provider), once.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace package_graph {

struct summary {
    std::uint64_t stanzas = 0;   ///< of the input, that are in the graph
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

/// What one package needs. `reachable`: packages on any path of dependencies, all alternatives and all providers
/// followed. `chosen`: of each group of alternatives only the first that can be had (a package, or else the first
/// provider by name), much as apt would choose on an empty system; with their size. Both count the package itself.
struct closure {
    std::uint64_t reachable = 0;
    std::uint64_t reachable_checksum = 0;  ///< of their names
    std::uint64_t chosen = 0;
    std::uint64_t chosen_checksum = 0;
    std::uint64_t chosen_kib = 0;  ///< installed size, KiB

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
