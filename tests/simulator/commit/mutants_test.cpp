// Every step that makes a commit durable, and every check of recovery, is needed: if one is omitted, the crash
// simulator finds an image that is wrong.
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "persist/mutant.hpp"
#include "simulator/commit/commit_scenarios.hpp"
#include "simulator/commit/space_explorer.hpp"
#include "simulator/mutant_runner.hpp"
#include "simulator/parallel.hpp"
#include "simulator/simulator_main.hpp"

namespace holdfast::simulator {
namespace {

/// A slower mutant is undecided, and the test fails.
constexpr unsigned seconds_a_mutant = 200;
/// Some mutants survive the scenarios and not these.
constexpr std::uint64_t random_programs = 60;

/// Sites at which a mutant changes nothing that a crash can show, each with the proof.
const std::map<std::string, std::string>& equivalent_sites() {
    static const std::map<std::string, std::string> sites{
        {"model.space.give_back", "As space.give_back below."},
        {"model.space.take_back", "As space.reserve_again below."},
    };
    return sites;
}

struct exploration {
    std::string name;
    std::function<explore_report()> run;
};

/// Quick ones first: most mutants need no others.
std::vector<exploration> explorations() {
    std::vector<exploration> all;
    const auto add = [&all](const commit_scenario& one, std::uint64_t atom_size) {
        all.push_back({one.name + ", atoms of " + std::to_string(atom_size),
                       [one, atom_size] { return explore(one, atom_size, mutant_effort()); }});
    };
    for (const auto& one : commit_scenarios()) {
        add(one, 512);
    }
    for (const auto& one : commit_scenarios()) {
        if (rewrites_under_one_checksum_page(one)) {
            all.push_back({one.name + ", damaged", [one] { return explore_damaged_logs(one, mutant_effort()); }});
        }
    }
    for (const auto& one : commit_scenarios()) {
        all.push_back({one.name + ", after a death", [one] { return explore_deaths(one, 512, death_effort()); }});
    }
    for (const auto& one : commit_scenarios()) {
        add(one, 8);
    }
    for (std::uint64_t seed = 1; seed <= random_programs; ++seed) {
        add(random_scenario(seed), seed % 2 == 0 ? 8 : 512);
    }
    return all;
}

std::string notice(const std::string& /*site*/) {
    for (const auto& one : explorations()) {
        if (!one.run().violations.empty()) {
            return one.name;
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
        const auto report = all[i].run();
        const std::lock_guard lock{mutex};
        if (!report.violations.empty()) {
            wrong += all[i].name + ": " + report.violations.front() + "\n";
        }
    });
    return wrong;
}

TEST(mutants, EveryOneOfTheCommitProtocolIsKilled) {
    if (!options().mutants.empty()) {
        expect_all_killed(run_mutants(options().mutants, seconds_a_mutant, notice), {}, options().mutants.size());
        return;
    }
    persist::forget_sites();
    const std::string wrong = explore_original();
    ASSERT_TRUE(wrong.empty()) << "with nothing left out: " << wrong;
    expect_all_killed(run_mutants(mutant_sites({"test."}), seconds_a_mutant, notice), equivalent_sites());
}

// --- the whole engine, with space that goes back ---

const std::map<std::string, std::string>& equivalent_space_sites() {
    static const std::map<std::string, std::string> sites{
        {"space.give_back",
         "It gives disk space back and no more: the pages are free, their sums are void, and who gets them next "
         "expects "
         "nothing of their content. That space does go is what manager_space_test asks."},
        {"space.reserve_again",
         "It asks for disk space, so that a full disk shows when memory is allocated and not when it is committed "
         "(full_disk_test); the content of the file stays."},
        {"space.back_bitmap",
         "As space.reserve_again, for the live bitmap of a slab that is made or loaded: a hole there reads as zeros, "
         "as it "
         "does with space, and the commit writes what changed. What happens where there is no space is what "
         "unloaded_slabs_test asks."},
    };
    return sites;
}

std::string notice_in_space(const std::string& /*site*/) {
    for (const space_scenario& one : space_scenarios()) {
        space_explorer explorer(one.segment_size, one.decay_ns, {16, 8, 8, 8});
        try {
            one.run(explorer);
        } catch (const std::exception& thrown) {
            return one.name + ": " + thrown.what();
        }
        if (!explorer.wrong().empty()) {
            return one.name + ": " + explorer.wrong();
        }
    }
    return {};
}

TEST(mutants, EveryOneOfSpaceThatGoesBackIsKilled) {
    persist::forget_sites();
    ASSERT_EQ(notice_in_space({}), "") << "with nothing left out";
    std::vector<std::string> sites;
    for (const std::string& site : mutant_sites({})) {
        if (site.starts_with("space.") || site.starts_with("slab.sparse.") || site.starts_with("undo.")) {
            sites.push_back(site);
        }
    }
    expect_all_killed(run_mutants(sites, seconds_a_mutant, notice_in_space), equivalent_space_sites(), 5);
}

}  // namespace
}  // namespace holdfast::simulator

int main(int count, char** arguments) { return holdfast::simulator::simulator_main(count, arguments); }
