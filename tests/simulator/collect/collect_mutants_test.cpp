// Every step of durability `collect`, of recovery by tracing and of a close is needed: if one is omitted, the crash
// tests find an image that is wrong.
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "persist/mutant.hpp"
#include "simulator/collect/collect_explorer.hpp"
#include "simulator/mutant_runner.hpp"
#include "simulator/parallel.hpp"
#include "simulator/simulator_main.hpp"

namespace holdfast::simulator {
namespace {

constexpr unsigned seconds_a_mutant = 200;
constexpr std::uint64_t random_programs = 40;

/// Sites at which a mutant changes nothing that a crash can show, each with the proof.
const std::map<std::string, std::string>& equivalent_sites() {
    static const std::map<std::string, std::string> sites{
        {"extent.shrink.written_back",
         "It asks the owner of the lanes to let go of records that speak of what is cut off. Durability `collect` has "
         "no records, and answers yes."},
    };
    return sites;
}

std::vector<std::function<collect_report()>> explorations() {
    const atomic_setting gives_back{.gives_back = true};
    std::vector<std::function<collect_report()>> all;
    for (const atomic_setting& setting : {atomic_setting{}, gives_back}) {
        all.emplace_back([setting] {
            collect_explorer explorer(setting, {{256, 32, 32, 32}, 8, {32, 8, 8, 8}, 4});
            for (const named_collect_program& each : named_collect_programs()) {
                explorer.run(each.name, each.steps, each.cut_from);
            }
            return explorer.report();
        });
        all.emplace_back([setting] {
            collect_explorer explorer(setting, {{64, 8, 8, 16}, 8, {32, 8, 8, 8}, 8});
            for (std::uint64_t seed = 0; seed < random_programs && !explorer.failed(); ++seed) {
                explorer.run_random(seed, 30);
            }
            return explorer.report();
        });
    }
    return all;
}

std::string notice(const std::string& /*site*/) {
    for (const auto& run : explorations()) {
        if (const auto report = run(); !report.violations.empty()) {
            return report.violations.front().substr(0, 100);
        }
    }
    return {};
}

/// What is wrong without a mutant. Collects the sites.
std::string explore_original() {
    const auto all = explorations();
    std::mutex mutex;
    std::string wrong;
    for_each_in_parallel(all.size(), [&](std::size_t i) {
        const auto report = all[i]();
        const std::lock_guard lock{mutex};
        wrong += report.violations.empty() ? "" : report.violations.front() + "\n";
    });
    return wrong;
}

TEST(collect_mutants_test, EveryStepOfDurabilityCollectIsKilled) {
    if (!options().mutants.empty()) {
        expect_all_killed(run_mutants(options().mutants, seconds_a_mutant, notice), {}, options().mutants.size());
        return;
    }
    persist::forget_sites();
    const std::string wrong = explore_original();
    ASSERT_TRUE(wrong.empty()) << "with nothing left out: " << wrong;
    expect_all_killed(run_mutants(mutant_sites({"program."}), seconds_a_mutant, notice), equivalent_sites());
}

}  // namespace
}  // namespace holdfast::simulator

int main(int count, char** arguments) { return holdfast::simulator::simulator_main(count, arguments); }
