#include "simulator/choices.hpp"

#include <algorithm>
#include <random>

namespace holdfast::simulator {

namespace {

using visitor = std::function<bool(std::span<const outcome>)>;

/// The number of combinations, at most limit + 1.
std::uint64_t combinations(const choice_space& space, std::uint64_t limit) {
    std::uint64_t product = 1;
    for (const outcome count : space.outcomes) {
        product *= count;
        if (product > limit) {
            return limit + 1;
        }
    }
    return product;
}

bool visit_all(const choice_space& space, const visitor& visit) {
    std::vector<outcome> chosen(space.outcomes.size());
    for (;;) {
        if (!visit(chosen)) {
            return false;
        }
        std::size_t at = 0;
        while (at < chosen.size() && ++chosen[at] == space.outcomes[at]) {
            chosen[at++] = 0;
        }
        if (at == chosen.size()) {
            return true;
        }
    }
}

/// Some combinations of a space that is too large for all.
class selection {
public:
    selection(const choice_space& space, const choice_limits& limits, std::uint64_t seed, const visitor& visit)
        : space_(space), limits_(limits), random_(seed), visit_(visit), all_(space.outcomes), none_(all_.size()) {
        for (auto& one : all_) {
            --one;
        }
    }

    bool run() { return visit_(none_) && visit_(all_) && singles() && prefixes() && samples(); }

private:
    /// At most `limit` of `count`, evenly spread from a random start.
    template <class Visit>
    bool spread(std::uint64_t count, std::uint64_t limit, Visit visit) {
        const std::uint64_t steps = std::min(count, limit);
        const std::uint64_t start = count > limit ? random_() % count : 0;
        for (std::uint64_t i = 0; i < steps; ++i) {
            if (!visit((start + i * count / steps) % count)) {
                return false;
            }
        }
        return true;
    }

    bool singles() {
        return spread(all_.size(), limits_.singles, [&](std::uint64_t at) {
            for (outcome value = 0; value <= all_[at]; ++value) {
                auto alone = none_;
                auto missing = all_;
                alone[at] = value;
                missing[at] = value;
                if ((value != 0 && !visit_(alone)) || (value != all_[at] && !visit_(missing))) {
                    return false;
                }
            }
            return true;
        });
    }

    [[nodiscard]] std::size_t begin_of(std::size_t operation) const {
        return operation < space_.operations.size() ? space_.operations[operation] : all_.size();
    }

    bool prefixes() {
        const bool cut_off = spread(all_.size(), limits_.prefixes, [&](std::uint64_t length) {
            auto chosen = none_;
            std::copy_n(all_.begin(), length, chosen.begin());
            return visit_(chosen);
        });
        return cut_off && spread(space_.operations.size(), limits_.singles, [&](std::uint64_t operation) {
                   auto alone = none_;
                   auto missing = all_;
                   for (std::size_t at = begin_of(operation); at < begin_of(operation + 1); ++at) {
                       alone[at] = all_[at];
                       missing[at] = 0;
                   }
                   return visit_(alone) && visit_(missing);
               });
    }

    /// Random ones of all densities, from few atoms to nearly all. Half of them mostly keep operations whole, because
    /// order matters between operations.
    bool samples() {
        std::vector<outcome> chosen(all_.size());
        for (std::uint64_t i = 0; i < limits_.samples; ++i) {
            const std::uint64_t density = 1 + random_() % 255;
            const bool by_operation = i % 2 == 0 && !space_.operations.empty();
            std::size_t operation = 0;
            bool whole = false;
            bool there = false;
            for (std::size_t at = 0; at < chosen.size(); ++at) {
                if (by_operation && begin_of(operation) == at) {
                    whole = random_() % 8 != 0;
                    there = random_() % 256 < density;
                    ++operation;
                }
                const bool take = whole ? there : random_() % 256 < density;
                chosen[at] =
                    static_cast<outcome>(all_[at] == 1 || whole ? (take ? all_[at] : 0) : random_() % (all_[at] + 1U));
            }
            if (!visit_(chosen)) {
                return false;
            }
        }
        return true;
    }

    const choice_space& space_;
    const choice_limits& limits_;
    std::mt19937_64 random_;
    const visitor& visit_;
    std::vector<outcome> all_;
    std::vector<outcome> none_;
};

}  // namespace

bool for_each_choice(const choice_space& space, const choice_limits& limits, std::uint64_t seed, const visitor& visit) {
    if (combinations(space, limits.exhaustive) <= limits.exhaustive) {
        return visit_all(space, visit);
    }
    return selection(space, limits, seed, visit).run();
}

}  // namespace holdfast::simulator
