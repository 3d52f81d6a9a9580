// Breadth-first search through all states, each remembered by a 64-bit hash.
#include <algorithm>
#include <bit>
#include <cstring>

#include "model/commit_log/steps.hpp"

namespace holdfast::commit_log_model {

namespace {

/// Where the processes stand has no part in what a loss of power leaves.
state without_processes(state now) {
    now.processes.fill({});
    now.home_version.fill(0);
    now.writing = now.writing_sector = now.writing_version = 0;
    now.checkpoint = now.checkpoint_version = now.turn = now.page = now.sector = now.stale_base = 0;
    now.doing = transaction::none;
    now.poisoned = now.cold = 0;
    return now;
}

std::uint64_t hash_of(const state& value) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
    std::uint64_t hash = 0x9e3779b97f4a7c15U;
    for (std::size_t at = 0; at < sizeof value; at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes + at, std::min<std::size_t>(8, sizeof value - at));
        hash = std::rotl(hash ^ (word * 0x87c37b91114253d5U), 29) * 0x4cf5ad432745937fU;
    }
    hash = (hash ^ hash >> 33U) * 0xff51afd7ed558ccdU;
    return (hash ^ hash >> 29U) | 1U;
}

class seen_hashes {
public:
    bool insert(std::uint64_t hash) {
        if (2 * ++count_ > places_.size()) {
            std::vector<std::uint64_t> old(places_.size() * 2);
            old.swap(places_);
            for (const std::uint64_t each : old) {
                if (each != 0) {
                    put(each);
                }
            }
        }
        const bool is_new = put(hash);
        count_ -= is_new ? 0 : 1;
        return is_new;
    }
    [[nodiscard]] std::uint64_t size() const { return count_; }

private:
    bool put(std::uint64_t hash) {
        std::size_t at = (hash >> 1U) & (places_.size() - 1);
        for (; places_[at] != 0; at = (at + 1) & (places_.size() - 1)) {
            if (places_[at] == hash) {
                return false;
            }
        }
        places_[at] = hash;
        return true;
    }

    std::vector<std::uint64_t> places_ = std::vector<std::uint64_t>(1U << 12U);
    std::uint64_t count_ = 0;
};

struct origin {
    std::uint32_t parent;
    label step;
};

class search {
public:
    search(const world& about, mistake wrong) : about_(about), protocol_(about, wrong) {}

    outcome run() {
        discover(protocol_.initial(), 0, {"begin", 0, 0});
        while (!next_.empty() && result_.violation.empty() && !stopped_) {
            now_.swap(next_);
            next_.clear();
            for (std::size_t at = 0; at < now_.size() && result_.violation.empty() && !stopped_; ++at) {
                visit(now_[at].first, now_[at].second);
            }
        }
        result_.states = states_.size();
        result_.media = cut_.size();
        result_.complete = !stopped_ && result_.violation.empty();
        return result_;
    }

private:
    void visit(const state& each, std::uint32_t number) {
        if (each.power_losses < about_.power_losses && cut_.insert(hash_of(without_processes(each)))) {
            const label cut{"the power fails", 0, 0};
            protocol_.for_each_loss_of_power(each, [&](const state& next, const std::string& wrong) {
                if (!wrong.empty()) {
                    fail(wrong, number, cut);
                    return false;
                }
                discover(next, number, cut);
                return true;
            });
        }
        protocol_.for_each_step(each, [&](const state& next, const label& step) {
            if (std::strncmp(step.name, "LOG-", 4) == 0) {
                fail(step.name, number, step);
            } else {
                discover(next, number, step);
            }
        });
    }

    void discover(state next, std::uint32_t parent, const label& step) {
        protocol_.normalise(next);
        if (!result_.violation.empty() || stopped_ || !states_.insert(hash_of(next))) {
            return;
        }
        const auto number = static_cast<std::uint32_t>(origins_.size());
        origins_.push_back({parent, step});
        if (const std::string wrong = protocol_.broken(next); !wrong.empty()) {
            fail(wrong, parent, step);
            return;
        }
        stopped_ = about_.state_limit != 0 && states_.size() > about_.state_limit;
        next_.emplace_back(next, number);
    }

    void fail(const std::string& wrong, std::uint32_t number, const label& last) {
        result_.violation = wrong;
        result_.path.push_back(describe(last));
        for (; number != 0; number = origins_[number].parent) {
            result_.path.push_back(describe(origins_[number].step));
        }
        std::reverse(result_.path.begin(), result_.path.end());
    }

    world about_;
    protocol protocol_;
    seen_hashes states_;
    seen_hashes cut_;
    std::vector<origin> origins_;
    std::vector<std::pair<state, std::uint32_t>> now_;
    std::vector<std::pair<state, std::uint32_t>> next_;
    bool stopped_ = false;
    outcome result_;
};

}  // namespace

outcome explore(const world& about, mistake wrong) { return search(about, wrong).run(); }

}  // namespace holdfast::commit_log_model
