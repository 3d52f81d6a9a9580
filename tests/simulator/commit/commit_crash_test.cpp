// Superblock, log, commit and recovery without power: the crash images of every scenario and of random programs are
// recovered; recoveries and the next sessions are cut as well. By hand: commit_crash_test --programs N.
//
// Oracle: if a heap had been created, recovery succeeds and shows exactly one commit, page by page, between the last
// that returned and the last that began. A commit once shown stays. Pages that no commit wrote read as zero. The next
// session opens, commits and closes; its crashes are judged alike.
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "simulator/commit/commit_scenarios.hpp"
#include "simulator/parallel.hpp"
#include "simulator/simulator_main.hpp"

namespace holdfast::simulator {
namespace {

struct job {
    commit_scenario scenario;
    std::uint64_t atom_size;
    [[nodiscard]] std::string name() const { return scenario.name + ", atoms of " + std::to_string(atom_size); }
};

std::vector<job> all_jobs() {
    std::vector<job> jobs;
    for (const std::uint64_t atom_size : {std::uint64_t{8}, std::uint64_t{512}}) {
        const auto& scenarios = commit_scenarios();
        for (std::size_t i = 0; i < scenarios.size(); ++i) {
            // Torn words take most of the time; the quick run tears those of every third scenario.
            if (atom_size == 512 || !options().quick || i % 3 == 0) {
                jobs.push_back({scenarios[i], atom_size});
            }
        }
    }
    for (std::uint64_t seed = 1; seed <= options().programs_or(72, 4); ++seed) {
        jobs.push_back({random_scenario(seed), seed % 4 == 0 ? std::uint64_t{8} : std::uint64_t{512}});
    }
    return jobs;
}

void print(const std::string& name, const explore_report& report) {
    const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
    std::printf("%-44s %9llu images, %9llu recoveries, %9llu cuts, %zu bad\n", name.c_str(), number(report.images()),
                number(report.trials), number(report.cuts), report.violations.size());
    std::fflush(stdout);
}

TEST(commit_crash_test, EveryImageRecoversToTheOldOrTheNewCommit) {
    const auto jobs = all_jobs();
    std::mutex mutex;
    explore_report total;
    for_each_in_parallel(jobs.size(), [&](std::size_t i) {
        const job& one = jobs[i];
        auto report = explore(one.scenario, one.atom_size, options().quick ? quick_effort() : full_effort());
        for (std::string& violation : report.violations) {
            violation.insert(0, one.name() + ": ");
        }
        const std::lock_guard lock{mutex};
        print(one.name(), report);
        total += report;
    });
    print("all, each image once", total);
    EXPECT_TRUE(total.violations.empty()) << total.violations.front();
    EXPECT_GE(total.images(), options().quick ? 300'000U : 5'000'000U);
}

TEST(commit_crash_test, WhatIsSeenOfAProcessThatDiedStays) {
    const std::uint64_t one_death_of = options().quick ? 4 : 1;
    explore_report total;
    std::mutex mutex;
    for_each_in_parallel(commit_scenarios().size(), [&](std::size_t i) {
        const auto report = explore_deaths(commit_scenarios()[i], 512, death_effort(), one_death_of);
        const std::lock_guard lock{mutex};
        total += report;
    });
    print("with a death before", total);
    EXPECT_TRUE(total.violations.empty()) << total.violations.front();
    EXPECT_GT(total.images(), 25'000U);
}

TEST(commit_crash_test, ALogThatIsDamagedShowsNoMixtureOfTwoCommits) {
    explore_report total;
    std::mutex mutex;
    for_each_in_parallel(commit_scenarios().size(), [&](std::size_t i) {
        if (const auto& one = commit_scenarios()[i]; rewrites_under_one_checksum_page(one)) {
            const auto report = explore_damaged_logs(one, mutant_effort(), options().quick ? 3 * 136 : 136);
            const std::lock_guard lock{mutex};
            total += report;
        }
    });
    print("with damage in the log", total);
    EXPECT_TRUE(total.violations.empty()) << total.violations.front();
    EXPECT_GT(total.images(), 500U);
}

}  // namespace
}  // namespace holdfast::simulator

int main(int count, char** arguments) { return holdfast::simulator::simulator_main(count, arguments); }
