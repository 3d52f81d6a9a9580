// The configurations that goals are judged by.
#pragma once

#include <string>
#include <vector>

#include "allocators/comparison.hpp"

namespace bench {

/// Told apart by workload, threads, backend, and of Holdfast by domain and durability.
class goal_runs {
public:
    explicit goal_runs(const allocation_run& pattern) : pattern_(pattern) {}

    void add(const char* workload, unsigned threads, const std::string& backend, const char* domain = "emulated",
             const std::string& durability = {}) {
        configuration one{pattern_, {}};
        one.run.workload = workload;
        one.run.threads = threads;
        one.run.backend = backend;
        one.run.domain = domain;
        if (!durability.empty()) {
            one.run.durability = durability;
        }
        all_.push_back(one);
    }
    [[nodiscard]] std::vector<configuration>& all() noexcept { return all_; }

    /// Null where it was not measured.
    [[nodiscard]] const run_summary* find(const char* workload, unsigned threads, const std::string& backend,
                                          const char* domain = "emulated", const std::string& durability = {}) const {
        for (const configuration& one : all_) {
            if (one.run.workload == workload && one.run.threads == threads && one.run.backend == backend &&
                one.run.domain == domain && (durability.empty() || one.run.durability == durability) &&
                one.found.unavailable().empty()) {
                return &one.found;
            }
        }
        return nullptr;
    }

private:
    allocation_run pattern_;
    std::vector<configuration> all_;
};

}  // namespace bench
