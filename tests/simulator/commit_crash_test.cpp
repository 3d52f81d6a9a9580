// Superblock, journal, commit and recovery without power: every legal image of every scenario is recovered, and cut off
// again while it is.
//
// Oracle: recovery succeeds wherever a heap had been created; what it shows is exactly one commit, page by page: none
// older than the last that returned, none newer than the last that began; shown once, it stays; the next commit works.
#include <cstdio>

#include <gtest/gtest.h>

#include "simulator/commit_scenarios.hpp"

namespace holdfast::simulator {
namespace {

class commit_crash_test : public testing::TestWithParam<std::size_t> {};

TEST_P(commit_crash_test, EveryImageRecoversToTheOldOrTheNewCommit) {
    const auto& one = commit_scenarios()[GetParam()];
    for (const std::uint64_t atom_size : {std::uint64_t{512}, std::uint64_t{8}}) {
        const auto report = explore(one, atom_size, full_effort());
        std::printf("%-28s atoms of %3llu bytes: %9llu images, %9llu duplicates, %8llu cuts\n", one.name.c_str(),
                    static_cast<unsigned long long>(atom_size), static_cast<unsigned long long>(report.images),
                    static_cast<unsigned long long>(report.duplicates), static_cast<unsigned long long>(report.cuts));
        ASSERT_TRUE(report.violations.empty())
            << one.name << ", atoms of " << atom_size << ": " << report.violations.front();
        RecordProperty("images_" + std::to_string(atom_size), std::to_string(report.images));
    }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, commit_crash_test, testing::Range(std::size_t{0}, commit_scenarios().size()),
                         [](const auto& which) { return commit_scenarios()[which.param].name; });

}  // namespace
}  // namespace holdfast::simulator
