// Judges by the goals; says what was not measured.
#pragma once

#include <string>

#include <fmt/format.h>

#include "allocators/goal_runs.hpp"

namespace bench {

/// Null where one is missing: the other alone would be too easy a goal.
[[nodiscard]] inline const run_summary* faster_of(const run_summary* one, const run_summary* other) {
    if (one == nullptr || other == nullptr) {
        return nullptr;
    }
    return one->median("mops") > other->median("mops") ? one : other;
}

class goal_judge {
public:
    goal_judge(report& out, const goal_runs& runs) : out_(out), runs_(runs) {}

    void times_as_fast(const std::string& what, const run_summary* ours, const run_summary* other, double limit) {
        if (is_there(what, ours, other)) {
            out_.goal_at_least(what, ours->median("mops") / other->median("mops"), limit, "x");
        }
    }
    void at_most(const std::string& what, const run_summary* ours, const char* key, double limit, const char* unit,
                 double units = 1) {
        if (is_there(what, ours, ours) && ours->has(key)) {
            out_.goal_at_most(what, ours->median(key) / units, limit, unit);
        } else if (ours != nullptr) {
            out_.note(fmt::format("goal: {}: not measured", what));
        }
    }

protected:
    [[nodiscard]] bool is_there(const std::string& what, const run_summary* one, const run_summary* other) {
        if (one == nullptr || other == nullptr) {
            out_.note(fmt::format("goal: {}: not measured", what));
            return false;
        }
        return true;
    }
    [[nodiscard]] report& out() noexcept { return out_; }
    [[nodiscard]] const goal_runs& runs() const noexcept { return runs_; }

private:
    report& out_;
    const goal_runs& runs_;
};

}  // namespace bench
