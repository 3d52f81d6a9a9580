// The package graph in std:: containers and ordinary memory. The persistent graph is checked against it. So that both
// do not have the same faults, they share only the code that reads the text, and this one is built in another way
// (first the newest version of each package, then the edges).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "control_file.hpp"
#include "summary.hpp"

namespace package_graph {

class plain_graph {
public:
    /// Builds the graph of the first `stanzas` stanzas of the text. Throws input_error.
    explicit plain_graph(std::string_view text, std::uint64_t stanzas = UINT64_MAX);

    [[nodiscard]] summary summarise() const;
    [[nodiscard]] answers answer(const question& asked) const;
    [[nodiscard]] bool contains(const std::string& name) const { return numbers_.contains(name); }
    /// Whether every step of the path is an edge: a dependency, or from a provided name to a provider.
    [[nodiscard]] bool has_path(const std::vector<std::string>& path) const;

private:
    struct edge {
        std::size_t target = 0;
        relation_kind kind = relation_kind::depends;
        std::uint32_t group = 0;
        std::string constraint;
    };
    struct node {
        std::string name;
        bool is_package = false;
        std::string version;
        std::uint64_t installed_kib = 0;
        std::vector<edge> dependencies;
        std::vector<std::size_t> provides;
        std::vector<std::size_t> providers;   // by name, each once
        std::vector<std::size_t> dependents;  // each once
    };

    std::size_t number_of(std::string_view name);
    void add_dependencies(std::size_t number, std::string_view field, relation_kind kind);
    void add_package(const stanza& described);
    void link_backwards();
    [[nodiscard]] std::vector<std::size_t> shortest_path(std::size_t from, std::size_t to) const;
    void reach_all(std::size_t start, closure& into) const;
    void choose_first(std::size_t start, closure& into) const;

    std::uint64_t stanzas_ = 0;
    std::vector<node> nodes_;
    std::unordered_map<std::string, std::size_t> numbers_;
};

}  // namespace package_graph
