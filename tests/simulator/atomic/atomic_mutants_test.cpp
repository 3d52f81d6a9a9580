// Every step of durability `atomic` and of its recovery is needed: if one is omitted, or two are swapped, the crash
// tests find an image that is wrong.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "persist/mutant.hpp"
#include "simulator/atomic/atomic_scenarios.hpp"
#include "simulator/mutant_runner.hpp"
#include "simulator/parallel.hpp"
#include "simulator/simulator_main.hpp"

namespace holdfast::simulator {
namespace {

constexpr unsigned seconds_a_mutant = 200;
constexpr std::uint64_t random_programs = 100;

/// Sites at which a mutant changes nothing that a crash can show, each with the proof.
const std::map<std::string, std::string>& equivalent_sites() {
    static const std::map<std::string, std::string> sites{
        {"lane.checkpoint.incomplete",
         "A record that is appended and not complete belongs to a call in flight, which announced a time below the "
         "record's before; T is not above what was announced, so the walk over the lane ends at the record anyway. A "
         "call that announced itself later has a time above the clock's reading, and so above T. What `completed` "
         "gives besides is that the stores are visible to whoever flushes (acquire): memory in the simulator is "
         "sequentially consistent and cannot show that."},
        {"replay.freed_target",
         "It matters for a destination whose last record allocates a block that a later record frees through another "
         "word, while media does not have the stamp of the first. Who frees through another word has moved the pointer "
         "and made the emptied word durable, as it promises, and with it the stamp. Where the program breaks that "
         "promise, "
         "media may as well hold the pointer itself; the test spares it some of these."},
    };
    return sites;
}

struct exploration {
    std::string name;
    std::function<atomic_report()> run;
};

const std::vector<atomic_setting>& settings() {
    static const std::vector<atomic_setting> all{{},
                                                 {8, lane::record_order::in_flight, crash_kind::process_crash},
                                                 {8, lane::record_order::logged, crash_kind::power_loss, 1}};
    return all;
}

atomic_report explore_named(const atomic_setting& setting) {
    atomic_explorer explorer(setting, {{4096, 64, 64, 256}, 4, {64, 16, 16, 16}, 1, 1});
    for (const named_program& each : named_programs()) {
        static_cast<void>(explorer.run(each.program));
    }
    explorer.run_openings_and_new_lanes();
    return explorer.report();
}

atomic_report explore_short(const atomic_setting& setting, const atomic_start& start, std::size_t length) {
    atomic_report report;
    for (const step& first : step_alphabet()) {
        report += explore_programs(setting, {{1024, 32, 32, 64}, 16, {64, 8, 8, 8}, 1}, start, first, length);
        if (!report.violations.empty()) {
            break;
        }
    }
    return report;
}

atomic_report explore_random(const atomic_setting& setting) {
    atomic_explorer explorer(setting, {{64, 8, 8, 32}, 64, {64, 8, 8, 8}, 8});
    for (std::uint64_t seed = 0; seed < random_programs && !explorer.failed(); ++seed) {
        explorer.run_random(seed, step_alphabet(), 40);
    }
    return explorer.report();
}

atomic_report explore_orders(const atomic_setting& setting, const concurrent_program& program, unsigned preemptions) {
    atomic_explorer explorer(setting, {{64, 8, 8, 16}, 64, {64, 8, 8, 8}, 64});
    explorer.run_all_orders(program, preemptions, 0, 1);
    return explorer.report();
}

/// Quick ones first: most mutants need no others. `most_preemptions`: with 2, what atomic_crash_test does without
/// mutants takes most of the time.
std::vector<exploration> explorations(unsigned most_preemptions) {
    std::vector<exploration> all;
    for (const atomic_setting& setting : settings()) {
        all.push_back({"named sequences", [=] { return explore_named(setting); }});
    }
    for (const atomic_setting& setting : settings()) {
        all.push_back({"space that goes back", [=] {
                           return explore_space(setting, {{64, 8, 8, 16}, 64, {64, 8, 8, 8}, 8}, 1, 1);
                       }});
    }
    const auto add_pairs = [&all](unsigned preemptions) {
        for (const atomic_setting& setting : settings()) {
            for (const concurrent_program& program : concurrent_programs()) {
                all.push_back({program.name + ", preemptions: " + std::to_string(preemptions),
                               [=] { return explore_orders(setting, program, preemptions); }});
            }
        }
    };
    add_pairs(1);
    for (const atomic_setting& setting : settings()) {
        constexpr atomic_effort for_groups{{256, 32, 32, 32}, 32, {64, 8, 8, 8}, 8};
        for (std::size_t start = 0; start < group_starts(); ++start) {
            all.push_back({"groups", [=] { return explore_groups(setting, for_groups, start, 2); }});
        }
        all.push_back({"groups of two", [=] { return explore_groups_of_two(setting, for_groups, 1, 40); }});
        all.push_back({"a death", [=] { return explore_deaths(setting, {{64, 8, 8, 16}, 64, {64, 8, 8, 8}, 8}); }});
        for (const atomic_start& start : atomic_starts()) {
            all.push_back({start.name + ", one step", [=] { return explore_short(setting, start, 1); }});
        }
    }
    for (const atomic_setting& setting : settings()) {
        all.push_back({"random programs", [=] { return explore_random(setting); }});
    }
    for (const std::uint64_t slots : {std::uint64_t{8}, std::uint64_t{16}}) {
        const atomic_setting setting{.slots = slots, .lanes_for_ahead = 2};
        all.push_back({"lanes ahead, random programs", [=] { return explore_random(setting); }});
    }
    for (const atomic_setting& setting : settings()) {
        for (const atomic_start& start : atomic_starts()) {
            all.push_back({start.name + ", two steps", [=] { return explore_short(setting, start, 2); }});
        }
    }
    if (most_preemptions == 2) {
        add_pairs(2);
    }
    return all;
}

/// Those that will most likely notice the mutant come first.
std::vector<exploration> explorations_for(const std::string& site) {
    static constexpr std::array<std::pair<const char*, const char*>, 13> likely{
        {{"extent.", "space"},
         {"heap.batch", "batches"},
         {"heap.group", "groups"},
         {"heap.payload", "groups"},
         {"lane.ahead", "lanes ahead"},
         {"lane.ahead.fence", "space that goes back"},
         {"lane.checkpoint.void", "a ring is used"},
         {"lane.data", "groups"},
         {"lane.finish", "a death"},
         {"lane.payload", "groups"},
         {"lane.log", "one fills its ring"},
         {"replay.data", "groups"},
         {"replay.group", "groups"}}};
    auto all = explorations(2);
    for (const auto& [sites, name] : likely) {
        if (site.starts_with(sites)) {
            std::ranges::stable_partition(all, [name](const exploration& one) { return one.name.starts_with(name); });
        }
    }
    return all;
}

/// What notices the mutant, or nothing. Sites with a proof are tried briefly.
std::string notice(const std::string& site) {
    constexpr std::size_t enough_for_proved = 20;
    std::size_t tried = 0;
    for (const auto& one : explorations_for(site)) {
        if (equivalent_sites().contains(site) && ++tried > enough_for_proved) {
            break;
        }
        if (const auto report = one.run(); !report.violations.empty()) {
            return one.name + ": " + report.violations.front().substr(0, 100);
        }
    }
    return {};
}

/// What is wrong without a mutant. Collects the sites.
std::string explore_original() {
    const auto all = explorations(1);
    std::mutex mutex;
    std::string wrong;
    for_each_in_parallel(all.size(), [&](std::size_t i) {
        const auto begin = std::chrono::steady_clock::now();
        const auto report = all[i].run();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        const std::lock_guard lock{mutex};
        std::printf("%6.2f s  %8llu images  %s\n", took.count(), static_cast<unsigned long long>(report.images),
                    all[i].name.c_str());
        std::fflush(stdout);
        if (!report.violations.empty()) {
            wrong += all[i].name + ": " + report.violations.front() + "\n";
        }
    });
    return wrong;
}

TEST(atomic_mutants_test, EveryOneOfTheAtomicProtocolIsKilled) {
    if (!options().mutants.empty()) {
        expect_all_killed(run_mutants(options().mutants, seconds_a_mutant, notice), {}, options().mutants.size());
        return;
    }
    persist::forget_sites();
    const std::string wrong = explore_original();
    ASSERT_TRUE(wrong.empty()) << "with nothing left out: " << wrong;
    // The log has a test of its own, and so has its room (lane_log_test).
    const auto sites = mutant_sites({"program.", "mutant.", "log.", "lane.log.full"});
    expect_all_killed(run_mutants(sites, seconds_a_mutant, notice), equivalent_sites());
}

}  // namespace
}  // namespace holdfast::simulator

int main(int count, char** arguments) { return holdfast::simulator::simulator_main(count, arguments); }
