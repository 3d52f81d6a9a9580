// Every step of durability `atomic` and of its recovery is needed: with any of them left out, or two in the other
// order, the crash tests find an image that goes wrong.
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "persist/mutant.hpp"
#include "simulator/atomic_scenarios.hpp"
#include "simulator/mutant_runner.hpp"
#include "simulator/parallel.hpp"

namespace holdfast::simulator {
namespace {

constexpr unsigned seconds_a_mutant = 200;

/// Sites whose mutant changes nothing that a crash can show, each with the proof.
const std::map<std::string, std::string>& equivalent_sites() {
    static const std::map<std::string, std::string> sites{};
    return sites;
}

struct exploration {
    std::string name;
    std::function<atomic_report()> run;
};

const std::vector<atomic_setting>& settings() {
    static const std::vector<atomic_setting> all{{}, {8, lane::record_order::in_flight, crash_kind::process_crash}};
    return all;
}

/// The quick ones come first, and most mutants need no others.
std::vector<exploration> explorations() {
    std::vector<exploration> all;
    const atomic_effort effort{{1024, 32, 32, 64}, 16, {64, 8, 8, 8}, 1};
    for (const std::size_t length : {std::size_t{1}, std::size_t{2}}) {
        for (const atomic_setting& setting : settings()) {
            for (const atomic_start& start : atomic_starts()) {
                all.push_back({start.name + ", length " + std::to_string(length), [=] {
                                   atomic_report report;
                                   for (const step& first : step_alphabet()) {
                                       report += explore_programs(setting, effort, start, first, length);
                                       if (!report.violations.empty()) {
                                           break;
                                       }
                                   }
                                   return report;
                               }});
            }
        }
    }
    for (const atomic_setting& setting : settings()) {
        all.push_back({"random", [=] {
                           atomic_laboratory laboratory(setting, {{64, 8, 8, 32}, 64, {64, 8, 8, 8}, 8});
                           for (std::uint64_t seed = 0; seed < 600 && !laboratory.failed(); ++seed) {
                               laboratory.run_random(seed, step_alphabet(), 40);
                           }
                           return laboratory.report();
                       }});
    }
    return all;
}

/// What notices the mutant that is selected, or nothing.
std::string notice() {
    for (const auto& one : explorations()) {
        if (const auto report = one.run(); !report.violations.empty()) {
            return one.name + ": " + report.violations.front().substr(0, 100);
        }
    }
    return {};
}

/// What goes wrong with nothing left out. Notes the sites, too.
std::string explore_original() {
    const auto all = explorations();
    std::mutex mutex;
    std::string wrong;
    for_each_in_parallel(all.size(), [&](std::size_t i) {
        const auto report = all[i].run();
        const std::lock_guard lock{mutex};
        if (!report.violations.empty()) {
            wrong += all[i].name + ": " + report.violations.front() + "\n";
        }
    });
    return wrong;
}

TEST(atomic_mutants_test, EveryOneOfTheAtomicProtocolIsKilled) {
    persist::forget_sites();
    const std::string wrong = explore_original();
    ASSERT_TRUE(wrong.empty()) << "with nothing left out: " << wrong;
    expect_all_killed(run_mutants(mutant_sites({"program.", "mutant."}), seconds_a_mutant, notice), equivalent_sites());
}

}  // namespace
}  // namespace holdfast::simulator
