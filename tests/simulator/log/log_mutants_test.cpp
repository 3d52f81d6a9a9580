// Every step that makes a record durable, and every check of what is read, is needed: if one is left out, the crash
// simulator finds an image that is wrong.
#include <map>
#include <mutex>
#include <string>

#include <gtest/gtest.h>

#include "persist/mutant.hpp"
#include "simulator/log/log_client.hpp"
#include "simulator/mutant_runner.hpp"
#include "simulator/parallel.hpp"
#include "simulator/simulator_main.hpp"

namespace holdfast::simulator {
namespace {

constexpr unsigned seconds_a_mutant = 300;
constexpr std::uint64_t random_programs = 20;

const std::map<std::string, std::string>& equivalent_sites() {
    static const std::map<std::string, std::string> sites{
        {"log.create.allocate", "It asks for space early, so that a full disk shows before the sync; zeros follow."},
        {"log.create.sync",
         "The first record's sync makes the file's size durable; this one lets it not wait for zeros."},
        {"log.create.write",
         "A shorter file holds no record where it ends, and the write of a record makes it as long as it needs, "
         "durably. "
         "Zeros that are there already make that write cheaper and no more."},
        {"log.group.round_first", "It lets a thread sleep for ever, which group_commit_test finds."},
    };
    return sites;
}

explore_options effort() {
    explore_options chosen;
    chosen.cuts = {choice_limits{256, 32, 32, 32}, choice_limits{32, 8, 8, 8}, choice_limits{8, 2, 2, 2}};
    chosen.images_below_one = 40;
    return chosen;
}

/// Of each write every prefix, in words: the first words of a header over an older record.
explore_options prefixes() {
    explore_options chosen;
    chosen.cuts = {choice_limits{16, 4, 1024, 4}, choice_limits{}, choice_limits{}};
    chosen.recovery_depth = 0;
    return chosen;
}

struct exploration {
    log_scenario scenario;
    std::uint64_t atom_size;
    explore_options effort;
};

std::vector<exploration> explorations() {
    std::vector<exploration> all;
    for (const log_scenario& one : log_scenarios()) {
        all.push_back({one, 512, effort()});
    }
    for (const log_scenario& one : log_scenarios()) {
        all.push_back({one, 8, prefixes()});
    }
    for (const log_scenario& one : log_scenarios()) {
        all.push_back({one, 8, effort()});
    }
    for (std::uint64_t seed = 1; seed <= random_programs; ++seed) {
        all.push_back({random_log_scenario(seed), 512, effort()});
    }
    return all;
}

std::string notice(const std::string& /*site*/) {
    for (const exploration& one : explorations()) {
        if (!explore(one.scenario, one.atom_size, one.effort).violations.empty()) {
            return one.scenario.name;
        }
    }
    return {};
}

TEST(log_mutants, each_is_killed) {
    if (!options().mutants.empty()) {
        expect_all_killed(run_mutants(options().mutants, seconds_a_mutant, notice), {}, options().mutants.size());
        return;
    }
    persist::forget_sites();
    const auto all = explorations();
    std::mutex mutex;
    std::string wrong;
    for_each_in_parallel(all.size(), [&](std::size_t i) {
        const auto report = explore(all[i].scenario, all[i].atom_size, all[i].effort);
        const std::lock_guard lock{mutex};
        wrong += report.violations.empty() ? "" : all[i].scenario.name + ": " + report.violations.front() + "\n";
    });
    ASSERT_TRUE(wrong.empty()) << "with nothing left out: " << wrong;
    expect_all_killed(run_mutants(mutant_sites({"client."}), seconds_a_mutant, notice), equivalent_sites(), 10);
}

}  // namespace
}  // namespace holdfast::simulator

int main(int count, char** arguments) { return holdfast::simulator::simulator_main(count, arguments); }
