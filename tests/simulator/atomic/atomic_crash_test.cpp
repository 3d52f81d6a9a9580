// Durability `atomic` without power: the crash images of every short program, of long random ones and of dangerous
// sequences are recovered and judged; some recoveries are cut as well. By hand: atomic_crash_test --programs N.
//
// Oracle: atomic_oracle.hpp.
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "simulator/atomic/atomic_scenarios.hpp"
#include "simulator/parallel.hpp"
#include "simulator/simulator_main.hpp"

namespace holdfast::simulator {
namespace {

void print(const std::string& name, const atomic_report& report) {
    fmt::print("{:<60} {:>9} images ({} in recoveries), {} programs, {} cuts, {} heaps used, {} bad\n", name,
               report.images, report.recovery_images, report.programs, report.cuts, report.used,
               report.violations.size());
    std::fflush(stdout);
}

struct named_setting {
    std::string name;
    atomic_setting setting;
    std::size_t length;
};

/// The short log is full soon; the long one holds what several rings do.
const std::vector<named_setting>& settings() {
    static const std::vector<named_setting> all = [] {
        std::vector<named_setting> some{
            {"power loss, rings of 8", {}, 3},
            {"power loss, a log of 8 records", {8, lane::record_order::logged, crash_kind::power_loss, 1}, 2},
            {"caches survive, rings of 8", {8, lane::record_order::clock, crash_kind::process_crash}, 3},
            {"process crash, call in flight", {8, lane::record_order::in_flight, crash_kind::process_crash}, 3},
        };
        if (!options().quick) {
            some.push_back(
                {"power loss, a log of 24 records", {8, lane::record_order::logged, crash_kind::power_loss, 1, 24}, 2});
        }
        return some;
    }();
    return all;
}

atomic_report total_of(std::size_t jobs, const std::function<atomic_report(std::size_t)>& work) {
    std::mutex mutex;
    atomic_report total;
    for_each_in_parallel(jobs, [&](std::size_t i) {
        const atomic_report one = work(i);
        const std::lock_guard lock{mutex};
        total += one;
    });
    return total;
}

TEST(atomic_crash_test, EveryProgramOfUpToThreeSteps) {
    atomic_report all;
    for (const named_setting& one : settings()) {
        for (const atomic_start& start : atomic_starts()) {
            // The quick run explores programs of three steps from the first start alone, with power loss.
            const bool first = &one == &settings().front() && &start == &atomic_starts().front();
            const bool shorter = options().quick && !first;
            const auto report = total_of(step_alphabet().size(), [&](std::size_t i) {
                return explore_programs(one.setting, {}, start, step_alphabet()[i], shorter ? 2 : one.length);
            });
            print(one.name + ": " + start.name, report);
            all += report;
        }
    }
    print("all", all);
    ASSERT_TRUE(all.violations.empty()) << all.violations.front();
    EXPECT_GE(all.images, options().quick ? 1'000'000U : 5'000'000U);
}

TEST(atomic_crash_test, NamedSequences) {
    for (const named_setting& one : settings()) {
        atomic_explorer explorer(one.setting, {{16384, 256, 256, 512}, 4, {64, 16, 16, 16}, 1, 1});
        for (const named_program& each : named_programs()) {
            const std::uint64_t before = explorer.report().images;
            EXPECT_TRUE(explorer.run(each.program)) << each.name << ": a step makes no sense";
            ASSERT_FALSE(explorer.failed()) << each.name << ": " << explorer.report().violations.front();
            fmt::print("{}: {}: {} images\n", one.name, each.name, explorer.report().images - before);
        }
    }
}

TEST(atomic_crash_test, SpaceThatGoesBack) {
    const std::size_t length = options().quick ? 2 : 4;
    const unsigned preemptions = options().quick ? 1 : 2;
    const auto report = total_of(settings().size(), [=](std::size_t i) {
        return explore_space(settings()[i].setting, {{256, 16, 16, 32}, 16, {64, 8, 8, 8}, 4}, length, preemptions);
    });
    print("space that goes back", report);
    ASSERT_TRUE(report.violations.empty()) << report.violations.front();
    EXPECT_GT(report.images, options().quick ? 5'000U : 100'000U);
}

TEST(atomic_crash_test, WhatAnotherNodeFrees) {
    const std::size_t length = options().quick ? 2 : 4;
    const auto report = total_of(settings().size(), [=](std::size_t i) {
        return explore_nodes(settings()[i].setting, {{256, 16, 16, 32}, 16, {64, 8, 8, 8}, 4}, length);
    });
    print("what another node frees", report);
    ASSERT_TRUE(report.violations.empty()) << report.violations.front();
    EXPECT_GT(report.images, options().quick ? 5'000U : 100'000U);
}

TEST(atomic_crash_test, GroupsCountWhollyOrNotAtAll) {
    constexpr atomic_effort effort{{256, 32, 32, 32}, 32, {64, 8, 8, 8}, 4};
    const bool quick = options().quick;
    atomic_report all;
    std::uint64_t images_on_logs = 0;
    for (const named_setting& one : settings()) {
        const bool logs = one.setting.order == lane::record_order::logged;
        const auto report = total_of(group_starts() + 1, [&](std::size_t start) {
            if (quick && logs && start != 0) {
                return atomic_report();
            }
            return start < group_starts() ? explore_groups(one.setting, effort, start, quick ? 2 : 3)
                                          : explore_groups_of_two(one.setting, effort, 1, quick ? 40 : 200);
        });
        print(one.name + ", groups", report);
        all += report;
        images_on_logs += logs ? report.images : 0;
    }
    ASSERT_TRUE(all.violations.empty()) << all.violations.front();
    EXPECT_GT(all.images, quick ? 1'000'000U : 5'000'000U);
    EXPECT_GT(images_on_logs, quick ? 10'000U : 5'000'000U);
}

TEST(atomic_crash_test, MorePendingRecordsOnADestinationThanThereAreStamps) {
    const auto report = explore_lap_of_stamps();
    print("a lap of stamps", report);
    ASSERT_TRUE(report.violations.empty()) << report.violations.front();
    EXPECT_GT(report.images, 2U);
}

TEST(atomic_crash_test, OpeningsAndNewLanes) {
    for (const named_setting& one : settings()) {
        atomic_explorer explorer(one.setting, {{16384, 256, 256, 512}, 4, {64, 16, 16, 16}, 1, 1});
        explorer.run_openings_and_new_lanes();
        print(one.name + ", openings and new lanes", explorer.report());
        ASSERT_FALSE(explorer.failed()) << explorer.report().violations.front();
        EXPECT_GT(explorer.report().images, 50U);
    }
}

TEST(atomic_crash_test, AThreadThatDiesInACall) {
    for (const named_setting& one : settings()) {
        const auto report = explore_deaths(one.setting, {{256, 16, 16, 32}, 64, {64, 8, 8, 8}, 8});
        print(one.name + ", one thread dies", report);
        ASSERT_TRUE(report.violations.empty()) << report.violations.front();
    }
}

TEST(atomic_crash_test, TwoThreadsInEveryOrderWithUpToTwoPreemptions) {
    constexpr unsigned shares = 4;
    const unsigned preemptions = options().quick ? 1 : 2;
    std::vector<named_setting> all = settings();
    all.push_back({"power loss, one thread uses the shared lane", {.lanes = 3}, 0});
    for (const named_setting& one : all) {
        for (const concurrent_program& program : concurrent_programs()) {
            const auto report = total_of(shares, [&](std::size_t share) {
                atomic_explorer explorer(one.setting, {{128, 8, 8, 32}, 64, {64, 8, 8, 8}, 4});
                explorer.run_all_orders(program, preemptions, static_cast<unsigned>(share), shares);
                return explorer.report();
            });
            print(one.name + ": " + program.name, report);
            ASSERT_TRUE(report.violations.empty()) << report.violations.front();
        }
    }
}

TEST(atomic_crash_test, RandomPrograms) {
    std::vector<named_setting> all = settings();
    all.push_back({"power loss, a lane ahead of checkpoints", {.slots = 16, .lanes_for_ahead = 2}, 0});
    for (const named_setting& one : all) {
        const std::uint64_t programs = options().programs_or(2'000, 200);
        const auto report = total_of(programs / 50 + 1, [&](std::size_t job) {
            atomic_explorer explorer(one.setting, {{256, 16, 16, 64}, 64, {64, 8, 8, 8}, 64});
            for (std::uint64_t i = 0; i < 50 && !explorer.failed(); ++i) {
                explorer.run_random(job * 50 + i, step_alphabet(), 40);
            }
            return explorer.report();
        });
        print(one.name + ", random", report);
        ASSERT_TRUE(report.violations.empty()) << report.violations.front();
    }
}

}  // namespace
}  // namespace holdfast::simulator

int main(int count, char** arguments) { return holdfast::simulator::simulator_main(count, arguments); }
