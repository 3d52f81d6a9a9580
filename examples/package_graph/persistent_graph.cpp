#include "persistent_graph.hpp"

#include <algorithm>

#include "checksum.hpp"

namespace package_graph {
namespace {

[[nodiscard]] std::string_view view(const holdfast::string& text) noexcept { return {text.data(), text.size()}; }

/// Whether the name counts: not one that only superseded versions mention.
[[nodiscard]] bool counts(const package& named) noexcept {
    return named.is_package || !named.dependents.empty() || !named.providers.empty();
}

[[nodiscard]] bool can_be_had(const package& named) noexcept { return named.is_package || !named.providers.empty(); }

void remove_one(holdfast::vector<holdfast::ptr<package>>& from, const package& removed) {
    const auto found = std::find_if(from.begin(), from.end(), [&](const auto& each) { return each.get() == &removed; });
    if (found != from.end()) {
        *found = from.back();
        from.pop_back();
    }
}

/// Appends `added` unless it is the last element. One package adds all its edges in a row, so each is added once.
void add_once(holdfast::vector<holdfast::ptr<package>>& to, package& added) {
    if (to.empty() || to.back().get() != &added) {
        to.emplace_back(&added);
    }
}

[[nodiscard]] std::uint64_t checksum_of(const package& named) {
    checksum64 term;
    term.add(term_of_name).add(view(named.name)).add(std::uint64_t{named.is_package}).add(view(named.version));
    term.add(named.installed_kib);
    for (const dependency& each : named.dependencies) {
        term.add(view(each.target->name)).add(static_cast<std::uint64_t>(each.kind));
        term.add(std::uint64_t{each.group}).add(view(each.constraint));
    }
    for (const auto& each : named.provides) {
        term.add(view(each->name));
    }
    std::uint64_t sum = term.value();
    for (const auto& each : named.dependents) {
        sum += checksum64{}.add(term_of_dependent).add(view(named.name)).add(view(each->name)).value();
    }
    for (const auto& each : named.providers) {
        sum += checksum64{}.add(term_of_provider).add(view(named.name)).add(view(each->name)).value();
    }
    return sum;
}

}  // namespace

std::optional<persistent_graph> persistent_graph::find(const holdfast::manager& heap) {
    persistent_graph graph;
    graph.packages_ = heap.find<packages_type>("packages").first;
    graph.by_name_ = heap.find<names_type>("by_name").first;
    graph.input_ = heap.find<input_identity>("input").first;
    graph.commits_ = heap.find<holdfast::vector<commit_record>>("commits").first;
    graph.stanzas_ = heap.find<std::uint64_t>("stanzas").first;
    if (graph.packages_ == nullptr || graph.by_name_ == nullptr || graph.input_ == nullptr ||
        graph.commits_ == nullptr || graph.stanzas_ == nullptr) {
        return std::nullopt;
    }
    return graph;
}

persistent_graph persistent_graph::create(holdfast::manager& heap, const input_identity& input) {
    const holdfast::allocator<char> memory = heap.get_allocator<char>();
    persistent_graph graph;
    graph.packages_ = heap.construct<packages_type>("packages")(memory);
    graph.by_name_ = heap.construct<names_type>("by_name")(memory);
    graph.input_ = heap.construct<input_identity>("input")(input);
    graph.commits_ = heap.construct<holdfast::vector<commit_record>>("commits")(memory);
    graph.stanzas_ = heap.construct<std::uint64_t>("stanzas")(0U);
    return graph;
}

package* persistent_graph::find_package(std::string_view name) const {
    const auto found = by_name_->find(name);
    return found == by_name_->end() ? nullptr : found->second.get();
}

package& persistent_graph::package_of(std::string_view name) {
    if (package* const known = find_package(name); known != nullptr) {
        return *known;
    }
    const holdfast::allocator<char> memory = by_name_->get_allocator();
    package& added = packages_->emplace_back(name, packages_->size(), memory);
    by_name_->emplace(holdfast::string(name.data(), name.size(), memory), &added);
    return added;
}

void persistent_graph::clear(package& outdated) {
    for (const dependency& each : outdated.dependencies) {
        remove_one(each.target->dependents, outdated);
    }
    for (const auto& each : outdated.provides) {
        remove_one(each->providers, outdated);
    }
    outdated.dependencies.clear();
    outdated.provides.clear();
}

void persistent_graph::add_dependencies(package& dependent, std::string_view field, relation_kind kind) {
    parse_relations(field, parsed_);
    for (const relation& each : parsed_) {
        package& target = package_of(each.name);
        dependent.dependencies.emplace_back(target, kind, each, dependent.name.get_allocator());
        add_once(target.dependents, dependent);
    }
}

void persistent_graph::add_provides(package& provider, std::string_view field) {
    parse_relations(field, parsed_);
    for (const relation& each : parsed_) {
        package& provided = package_of(each.name);
        provider.provides.emplace_back(&provided);
        add_once(provided.providers, provider);
    }
}

void persistent_graph::add(const stanza& described) {
    ++*stanzas_;
    package& named = package_of(described.package);
    if (named.is_package) {
        if (std::is_lteq(compare_versions(described.version, view(named.version)))) {
            return;
        }
        clear(named);
    }
    named.is_package = true;
    named.version.assign(described.version.data(), described.version.size());
    named.installed_kib = described.installed_kib;
    add_dependencies(named, described.pre_depends, relation_kind::pre_depends);
    add_dependencies(named, described.depends, relation_kind::depends);
    add_provides(named, described.provides);
}

summary persistent_graph::summarise() const {
    summary result;
    result.stanzas = *stanzas_;
    for (const package& each : *packages_) {
        if (counts(each)) {
            ++result.names;
            result.packages += each.is_package ? 1 : 0;
            result.edges += each.dependencies.size() + each.provides.size();
            result.checksum += checksum_of(each);
        }
    }
    return result;
}

const commit_record& persistent_graph::record_commit(const holdfast::manager& heap) {
    const auto base = reinterpret_cast<std::uintptr_t>(heap.get_address());
    return commits_->emplace_back(commit_record{commits_->size() + 1, summarise(), base});
}

std::string persistent_graph::first_package() const {
    return packages_->empty() ? std::string() : std::string(view(packages_->front().name));
}

std::vector<ranked_name> persistent_graph::rank() const {
    std::vector<const package*> all;
    all.reserve(packages_->size());
    for (const package& each : *packages_) {
        if (counts(each)) {
            all.push_back(&each);
        }
    }
    const auto length = static_cast<std::ptrdiff_t>(std::min(rank_length, all.size()));
    std::ranges::partial_sort(all, all.begin() + length, [](const package* a, const package* b) {
        const std::size_t x = a->dependents.size();
        const std::size_t y = b->dependents.size();
        return x != y ? x > y : view(a->name) < view(b->name);
    });
    std::vector<ranked_name> ranked;
    for (auto each = all.begin(); each != all.begin() + length; ++each) {
        ranked.push_back({std::string(view((*each)->name)), (*each)->dependents.size()});
    }
    return ranked;
}

std::vector<std::string> persistent_graph::shortest_path(const package& from, const package& to) const {
    std::vector<const package*> came_from(packages_->size());
    came_from[from.number] = &from;
    std::vector<const package*> ring{&from};
    while (!ring.empty() && came_from[to.number] == nullptr) {
        std::vector<const package*> next_ring;
        for (const package* const current : ring) {
            const auto visit = [&](const package& next) {
                if (came_from[next.number] == nullptr) {
                    came_from[next.number] = current;
                    next_ring.push_back(&next);
                }
            };
            for (const dependency& each : current->dependencies) {
                visit(*each.target);
            }
            for (const auto& each : current->providers) {
                visit(*each);
            }
        }
        ring.swap(next_ring);
    }
    if (came_from[to.number] == nullptr) {
        return {};
    }
    std::vector<std::string> path{std::string(view(to.name))};
    for (const package* step = &to; step != &from; path.emplace_back(view(step->name))) {
        step = came_from[step->number];
    }
    std::ranges::reverse(path);
    return path;
}

void persistent_graph::reach_all(const package& start, closure& into) const {
    std::vector<char> reached(packages_->size());
    std::vector<const package*> pending{&start};
    reached[start.number] = 1;
    const auto visit = [&](const package& next) {
        if (reached[next.number] == 0) {
            reached[next.number] = 1;
            pending.push_back(&next);
        }
    };
    while (!pending.empty()) {
        const package& current = *pending.back();
        pending.pop_back();
        if (current.is_package) {
            ++into.reachable;
            into.reachable_checksum += checksum64{}.add(view(current.name)).value();
        }
        for (const dependency& each : current.dependencies) {
            visit(*each.target);
        }
        for (const auto& each : current.providers) {
            visit(*each);
        }
    }
}

void persistent_graph::choose_first(const package& start, closure& into) const {
    std::vector<char> chosen(packages_->size());
    std::vector<const package*> pending{&start};
    while (!pending.empty()) {
        const package& current = *pending.back();
        pending.pop_back();
        if (chosen[current.number] != 0) {
            continue;
        }
        chosen[current.number] = 1;
        ++into.chosen;
        into.chosen_checksum += checksum64{}.add(view(current.name)).value();
        into.chosen_kib += current.installed_kib;
        const dependency* satisfied = nullptr;  // alternatives of one group are adjacent
        for (const dependency& each : current.dependencies) {
            const bool same_group =
                satisfied != nullptr && satisfied->group == each.group && satisfied->kind == each.kind;
            if (same_group || !can_be_had(*each.target)) {
                continue;
            }
            satisfied = &each;
            const auto by_name = [](const auto& a, const auto& b) { return view(a->name) < view(b->name); };
            const package* const taken =
                each.target->is_package
                    ? each.target.get()
                    : std::min_element(each.target->providers.begin(), each.target->providers.end(), by_name)->get();
            pending.push_back(taken);
        }
    }
}

answers persistent_graph::answer(const question& asked) const {
    answers result;
    result.most_depended_on = rank();
    const package* const from = find_package(asked.from);
    const package* const to = find_package(asked.to);
    if (from != nullptr && to != nullptr) {
        result.path = shortest_path(*from, *to);
    }
    const package* const needing = find_package(asked.closure_of);
    if (needing != nullptr && needing->is_package) {
        reach_all(*needing, result.needs);
        choose_first(*needing, result.needs);
    }
    return result;
}

}  // namespace package_graph
