#include "vector_graph.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <queue>

namespace vector_index {

namespace {

constexpr std::size_t lanes = 16;

/// Sums by lanes, which compilers turn into vector instructions.
float squared_distance(const float* a, const float* b, std::size_t length) {
    std::array<float, lanes> sums{};
    std::size_t i = 0;
    for (; i + lanes <= length; i += lanes) {
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            const float apart = a[i + lane] - b[i + lane];
            sums[lane] += apart * apart;
        }
    }
    for (; i < length; ++i) {
        sums[i % lanes] += (a[i] - b[i]) * (a[i] - b[i]);
    }
    float sum = 0;
    for (const float each : sums) {
        sum += each;
    }
    return sum;
}

std::uint64_t mix(std::uint64_t bits) noexcept {  // the finalizer of splitmix64
    bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9U;
    bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBU;
    return bits ^ (bits >> 31U);
}

/// How high a node reaches: each level has `links` times fewer nodes than the one below.
unsigned level_of(node number, std::uint32_t links) {
    const double random = (static_cast<double>(mix(number + 1) >> 11U) + 1) / 9007199254740993.0;
    return static_cast<unsigned>(std::min(-std::log(random) / std::log(links), 30.0));
}

}  // namespace

float searcher::distance(std::span<const float> from, node to) const {
    return squared_distance(from.data(), graph_->vector_of(to).data(), from.size());
}

bool searcher::visit(node at) {
    if (seen_[at] == searches_) {
        return false;
    }
    seen_[at] = searches_;
    return true;
}

std::vector<neighbour> searcher::descend(std::span<const float> to, unsigned level) {
    std::vector<neighbour> found{{distance(to, graph_->entry), graph_->entry}};
    for (unsigned above = graph_->top; above > level; --above) {
        found = search_level(to, found, above, kept_above);
    }
    return found;
}

std::vector<neighbour> searcher::search_level(std::span<const float> to, const std::vector<neighbour>& from,
                                              unsigned level, std::size_t effort) {
    if (seen_.size() < graph_->size) {
        seen_.resize(std::max<std::size_t>(graph_->size, 2 * seen_.size()));
    }
    if (++searches_ == 0) {
        std::fill(seen_.begin(), seen_.end(), 0);
        searches_ = 1;
    }
    std::priority_queue<neighbour, std::vector<neighbour>, std::greater<>> open;  // the nearest on top
    std::priority_queue<neighbour> found;                                         // the farthest on top
    for (const neighbour& each : from) {
        if (found.size() < effort && visit(each.number)) {
            open.push(each);
            found.push(each);
        }
    }
    while (!open.empty() && !(found.size() == effort && open.top().distance > found.top().distance)) {
        const neighbour at = open.top();
        open.pop();
        for (const node next : graph_->links_of(at.number, level)) {
            if (!visit(next)) {
                continue;
            }
            const float apart = distance(to, next);
            if (found.size() < effort || apart < found.top().distance) {
                open.push({apart, next});
                found.push({apart, next});
                if (found.size() > effort) {
                    found.pop();
                }
            }
        }
    }
    std::vector<neighbour> sorted(found.size());
    for (auto place = sorted.rbegin(); place != sorted.rend(); ++place) {
        *place = found.top();
        found.pop();
    }
    return sorted;
}

std::vector<neighbour> searcher::nearest(std::span<const float> to, std::size_t count, std::size_t effort) {
    if (graph_->size == 0) {
        return {};
    }
    auto found = search_level(to, descend(to, 0), 0, std::max(count, effort));
    found.resize(std::min(count, found.size()));
    return found;
}

void builder::reserve(std::size_t count) {
    graph_->vectors.reserve(count * graph_->dimensions);
    graph_->ground.reserve(count * (graph_->most_links(0) + 1));
    graph_->levels.reserve(count);
    graph_->begins.reserve(count);
}

/// Candidates that are nearer to the node than to any that was chosen before, so that links lead in all directions. Of
/// equal vectors one is chosen: a node whose links all lead to its equals would be an island.
std::vector<neighbour> builder::choose(const std::vector<neighbour>& candidates, std::size_t most) const {
    std::vector<neighbour> chosen;
    for (const neighbour& each : candidates) {
        if (chosen.size() == most) {
            break;
        }
        const auto vector = graph_->vector_of(each.number);
        if (std::none_of(chosen.begin(), chosen.end(), [&](const neighbour& other) {
                return search_.distance(vector, other.number) <= each.distance;
            })) {
            chosen.push_back(each);
        }
    }
    return chosen;
}

void builder::set_links(node of, unsigned level, const std::vector<neighbour>& to) {
    node* const place = stored_graph::place_of(*graph_, of, level);
    *place = static_cast<node>(to.size());
    std::transform(to.begin(), to.end(), place + 1, [](const neighbour& each) { return each.number; });
}

void builder::link_back(node from, neighbour to, unsigned level) {
    const std::size_t most = graph_->most_links(level);
    node* const place = stored_graph::place_of(*graph_, from, level);
    if (*place < most) {
        place[++*place] = to.number;
        return;
    }
    std::vector<neighbour> candidates{to};
    const auto vector = graph_->vector_of(from);
    for (const node each : graph_->links_of(from, level)) {
        candidates.push_back({search_.distance(vector, each), each});
    }
    std::sort(candidates.begin(), candidates.end());
    set_links(from, level, choose(candidates, most));
}

void builder::add(std::span<const float> vector) {
    stored_graph& graph = *graph_;
    const node added = graph.size;
    const unsigned level = level_of(added, graph.links);
    graph.vectors.insert(graph.vectors.end(), vector.begin(), vector.end());
    graph.ground.resize(graph.ground.size() + graph.most_links(0) + 1);
    graph.levels.push_back(static_cast<std::uint8_t>(level));
    graph.begins.push_back(static_cast<std::uint32_t>(graph.upper.size()));
    graph.upper.resize(graph.upper.size() + level * (graph.most_links(1) + 1));
    ++graph.size;
    if (added == 0) {
        graph.top = level;
        return;
    }
    auto found = search_.descend(vector, level);
    for (unsigned each = std::min(level, graph.top) + 1; each-- > 0;) {
        found = search_.search_level(vector, found, each, effort_);
        const auto chosen = choose(found, graph.links);
        set_links(added, each, chosen);
        for (const neighbour& to : chosen) {
            link_back(to.number, {to.distance, added}, each);
        }
    }
    if (level > graph.top) {
        graph.top = level;
        graph.entry = added;
    }
}

std::pair<bool, std::uint64_t> examine(const stored_graph& graph) {
    bool right =
        graph.levels.size() == graph.size && graph.vectors.size() == std::size_t{graph.size} * graph.dimensions;
    std::uint64_t sum = graph.size;
    for (node each = 0; right && each < graph.size; ++each) {
        for (const float number : graph.vector_of(each)) {
            std::uint32_t bits = 0;
            std::memcpy(&bits, &number, sizeof bits);
            sum = mix(sum ^ bits);
        }
        for (unsigned level = 0; level <= graph.levels[each]; ++level) {
            const auto links = graph.links_of(each, level);
            right =
                right && links.size() <= graph.most_links(level) && (graph.size == 1 || !links.empty() || level > 0);
            for (const node to : links.first(std::min(links.size(), graph.most_links(level)))) {
                right = right && to < graph.size && to != each && graph.levels[to] >= level;
                sum = mix(sum ^ to);
            }
        }
    }
    return {right, sum};
}

}  // namespace vector_index
