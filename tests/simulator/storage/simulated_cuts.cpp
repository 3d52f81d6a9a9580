// The images that a loss of power may leave.
#include <algorithm>

#include "base/assert.hpp"
#include "simulator/storage/simulated_storage.hpp"

namespace holdfast::simulator {

void simulated_storage::run_in_peace() noexcept {
    in_peace_ = true;
    for (node& one : nodes_) {
        one.durable.reset();
        one.pending.clear();
    }
}

std::size_t simulated_storage::pending_atoms() const {
    std::size_t count = pending_names_.size();
    for (const node& one : nodes_) {
        for (const change& each : one.pending) {
            count += each.atoms.size();
        }
    }
    return count;
}

choice_space simulated_storage::choices() const {
    choice_space space;
    const auto add = [&space](std::size_t count) {
        space.operations.push_back(static_cast<std::uint32_t>(space.outcomes.size()));
        space.outcomes.resize(space.outcomes.size() + count, outcome{2});
    };
    for (std::size_t i = 0; i < pending_names_.size(); ++i) {
        add(1);
    }
    for (const node& one : nodes_) {
        for (const change& each : one.pending) {
            add(each.atoms.size());
        }
    }
    return space;
}

storage_image simulated_storage::build(std::span<const outcome> chosen) const {
    image out;
    if (pending_names_.empty()) {
        out.names = durable_names_;
    } else {
        auto names = std::make_shared<name_map>(*durable_names_);
        for (std::size_t i = 0; i < pending_names_.size(); ++i) {
            if (chosen[i] != 0) {
                apply(*names, pending_names_[i]);
            }
        }
        prune(*names);
        out.names = std::move(names);
        chosen = chosen.subspan(pending_names_.size());
    }
    out.nodes.reserve(nodes_.size());
    for (const node& one : nodes_) {
        if (one.pending.empty()) {
            out.nodes.push_back({one.directory, one.durable, one.link});
            continue;
        }
        auto content = std::make_shared<sparse_content>(*one.durable);
        for (const change& each : one.pending) {
            apply(*content, each, chosen.first(each.atoms.size()));
            chosen = chosen.subspan(each.atoms.size());
        }
        out.nodes.push_back({one.directory, std::move(content), one.link});
    }
    return out;
}

bool simulated_storage::for_each_crash_image(const choice_limits& limits, std::uint64_t seed,
                                             const std::function<bool(const image&)>& visit) const {
    HF_ASSERT(!in_peace_);
    return for_each_choice(choices(), limits, seed,
                           [&](std::span<const outcome> chosen) { return visit(build(chosen)); });
}

storage_image simulated_storage::current() const {
    image out;
    out.names = names_;
    for (const node& one : nodes_) {
        out.nodes.push_back({one.directory, one.now, one.link});
    }
    return out;
}

}  // namespace holdfast::simulator
