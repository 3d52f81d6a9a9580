#include "plain_graph.hpp"

#include <algorithm>
#include <deque>
#include <set>

#include "checksum.hpp"

namespace package_graph {

plain_graph::plain_graph(std::string_view text, std::uint64_t stanzas) {
    control_reader reader(text);
    std::vector<stanza> all;
    for (stanza next; all.size() < stanzas && reader.next(next);) {
        all.push_back(next);
    }
    stanzas_ = all.size();
    std::unordered_map<std::string_view, std::size_t> newest;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto [found, is_first] = newest.emplace(all[i].package, i);
        if (!is_first && std::is_gt(compare_versions(all[i].version, all[found->second].version))) {
            found->second = i;
        }
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (newest.at(all[i].package) == i) {
            add_package(all[i]);
        }
    }
    link_backwards();
}

std::size_t plain_graph::number_of(std::string_view name) {
    const auto [found, is_new] = numbers_.emplace(name, nodes_.size());
    if (is_new) {
        nodes_.emplace_back().name = name;
    }
    return found->second;
}

void plain_graph::add_dependencies(std::size_t number, std::string_view field, relation_kind kind) {
    std::vector<relation> relations;
    parse_relations(field, relations);
    for (const relation& parsed : relations) {
        const std::size_t target = number_of(parsed.name);
        nodes_[number].dependencies.push_back({target, kind, parsed.group, std::string(parsed.constraint)});
    }
}

void plain_graph::add_package(const stanza& described) {
    const std::size_t number = number_of(described.package);
    nodes_[number].is_package = true;
    nodes_[number].version = described.version;
    nodes_[number].installed_kib = described.installed_kib;
    add_dependencies(number, described.pre_depends, relation_kind::pre_depends);
    add_dependencies(number, described.depends, relation_kind::depends);
    std::vector<relation> provided;
    parse_relations(described.provides, provided);
    for (const relation& parsed : provided) {
        const std::size_t target = number_of(parsed.name);
        nodes_[number].provides.push_back(target);
    }
}

void plain_graph::link_backwards() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        for (const edge& dependency : nodes_[i].dependencies) {
            std::vector<std::size_t>& dependents = nodes_[dependency.target].dependents;
            if (dependents.empty() || dependents.back() != i) {
                dependents.push_back(i);
            }
        }
        for (const std::size_t provided : nodes_[i].provides) {
            nodes_[provided].providers.push_back(i);
        }
    }
    for (node& each : nodes_) {
        std::ranges::sort(each.providers, {},
                          [&](std::size_t provider) { return std::string_view(nodes_[provider].name); });
        const auto repeated = std::ranges::unique(each.providers);
        each.providers.erase(repeated.begin(), repeated.end());
    }
}

summary plain_graph::summarise() const {
    summary result;
    result.stanzas = stanzas_;
    result.names = nodes_.size();
    for (const node& each : nodes_) {
        result.packages += each.is_package ? 1 : 0;
        result.edges += each.dependencies.size() + each.provides.size();
        checksum64 term;
        term.add(term_of_name)
            .add(each.name)
            .add(static_cast<std::uint64_t>(each.is_package))
            .add(each.version)
            .add(each.installed_kib);
        for (const edge& dependency : each.dependencies) {
            term.add(nodes_[dependency.target].name).add(static_cast<std::uint64_t>(dependency.kind));
            term.add(std::uint64_t{dependency.group}).add(dependency.constraint);
        }
        for (const std::size_t provided : each.provides) {
            term.add(nodes_[provided].name);
        }
        result.checksum += term.value();
        for (const std::size_t dependent : each.dependents) {
            result.checksum += checksum64{}.add(term_of_dependent).add(each.name).add(nodes_[dependent].name).value();
        }
        for (const std::size_t provider : each.providers) {
            result.checksum += checksum64{}.add(term_of_provider).add(each.name).add(nodes_[provider].name).value();
        }
    }
    return result;
}

bool plain_graph::has_path(const std::vector<std::string>& path) const {
    for (std::size_t i = 0; i < path.size(); ++i) {
        if (!contains(path[i])) {
            return false;
        }
        if (i == 0) {
            continue;
        }
        const node& before = nodes_[numbers_.at(path[i - 1])];
        const std::size_t after = numbers_.at(path[i]);
        const bool depends = std::ranges::any_of(before.dependencies, [&](const edge& e) { return e.target == after; });
        if (!depends && std::ranges::find(before.providers, after) == before.providers.end()) {
            return false;
        }
    }
    return true;
}

std::vector<std::size_t> plain_graph::shortest_path(std::size_t from, std::size_t to) const {
    std::vector<std::size_t> came_from(nodes_.size(), nodes_.size());
    came_from[from] = from;
    std::deque<std::size_t> queue{from};
    const auto visit = [&](std::size_t number, std::size_t by) {
        if (came_from[number] == nodes_.size()) {
            came_from[number] = by;
            queue.push_back(number);
        }
    };
    while (!queue.empty() && came_from[to] == nodes_.size()) {
        const std::size_t current = queue.front();
        queue.pop_front();
        for (const std::size_t provider : nodes_[current].providers) {
            visit(provider, current);
        }
        for (const edge& dependency : nodes_[current].dependencies) {
            visit(dependency.target, current);
        }
    }
    if (came_from[to] == nodes_.size()) {
        return {};
    }
    std::vector<std::size_t> path{to};
    while (path.back() != from) {
        path.push_back(came_from[path.back()]);
    }
    std::ranges::reverse(path);
    return path;
}

void plain_graph::reach_all(std::size_t start, closure& into) const {
    std::vector<bool> reached(nodes_.size());
    std::vector<std::size_t> pending;
    const auto visit = [&](std::size_t number) {
        if (!reached[number]) {
            reached[number] = true;
            pending.push_back(number);
        }
    };
    visit(start);
    while (!pending.empty()) {
        const node& current = nodes_[pending.back()];
        pending.pop_back();
        if (current.is_package) {
            ++into.reachable;
            into.reachable_checksum += checksum64{}.add(current.name).value();
        }
        for (const edge& dependency : current.dependencies) {
            visit(dependency.target);
        }
        std::ranges::for_each(current.providers, visit);
    }
}

void plain_graph::choose_first(std::size_t start, closure& into) const {
    std::set<std::size_t> chosen;
    std::vector<std::size_t> pending{start};
    while (!pending.empty()) {
        const std::size_t number = pending.back();
        pending.pop_back();
        if (!chosen.insert(number).second) {
            continue;
        }
        const node& current = nodes_[number];
        into.chosen_checksum += checksum64{}.add(current.name).value();
        into.chosen_kib += current.installed_kib;
        std::set<std::pair<relation_kind, std::uint32_t>> satisfied;
        for (const edge& dependency : current.dependencies) {
            const node& target = nodes_[dependency.target];
            const bool can_be_had = target.is_package || !target.providers.empty();
            if (can_be_had && satisfied.emplace(dependency.kind, dependency.group).second) {
                pending.push_back(target.is_package ? dependency.target : target.providers.front());
            }
        }
    }
    into.chosen = chosen.size();
}

answers plain_graph::answer(const question& asked) const {
    answers result;
    std::vector<const node*> ranked;
    ranked.reserve(nodes_.size());
    for (const node& each : nodes_) {
        ranked.push_back(&each);
    }
    const auto length = static_cast<std::ptrdiff_t>(std::min(rank_length, ranked.size()));
    std::ranges::partial_sort(ranked, ranked.begin() + length, [](const node* a, const node* b) {
        const std::size_t x = a->dependents.size();
        const std::size_t y = b->dependents.size();
        return x != y ? x > y : a->name < b->name;
    });
    for (auto each = ranked.begin(); each != ranked.begin() + length; ++each) {
        result.most_depended_on.push_back({(*each)->name, (*each)->dependents.size()});
    }
    if (contains(asked.from) && contains(asked.to)) {
        for (const std::size_t step : shortest_path(numbers_.at(asked.from), numbers_.at(asked.to))) {
            result.path.push_back(nodes_[step].name);
        }
    }
    if (contains(asked.closure_of) && nodes_[numbers_.at(asked.closure_of)].is_package) {
        reach_all(numbers_.at(asked.closure_of), result.needs);
        choose_first(numbers_.at(asked.closure_of), result.needs);
    }
    return result;
}

}  // namespace package_graph
