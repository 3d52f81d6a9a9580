// Durability `collect` without power: the crash images of named sequences and random programs are recovered by tracing,
// judged, used and closed; some recoveries are cut, twice in a row. By hand: collect_crash_test --programs N.
//
// Oracle: collect_program.hpp.
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "simulator/collect/collect_explorer.hpp"
#include "simulator/parallel.hpp"
#include "simulator/simulator_main.hpp"

namespace holdfast::simulator {
namespace {

void print(const std::string& name, const collect_report& report) {
    fmt::print("{:<60} {:>9} images ({} in recoveries), {} programs, {} cuts, {} heaps used, {} bad\n", name,
               report.images, report.recovery_images, report.programs, report.cuts, report.used,
               report.violations.size());
    std::fflush(stdout);
}

struct named_setting {
    std::string name;
    atomic_setting setting;
};

const std::vector<named_setting>& settings() {
    static const std::vector<named_setting> all{
        {"power loss", {}},
        {"power loss, space goes back", {.gives_back = true}},
        {"caches survive", {.crash = crash_kind::process_crash}},
    };
    return all;
}

TEST(collect_crash_test, NamedSequences) {
    for (const named_setting& one : settings()) {
        collect_explorer explorer(one.setting, {{1024, 64, 64, 64}, 4, {64, 16, 16, 16}, 2});
        for (const named_collect_program& each : named_collect_programs()) {
            explorer.run(each.name, each.steps, each.cut_from);
            ASSERT_FALSE(explorer.failed()) << explorer.report().violations.front();
        }
        print(one.name + ", named", explorer.report());
        EXPECT_GT(explorer.report().used, 50U);
    }
}

TEST(collect_crash_test, RandomPrograms) {
    for (const named_setting& one : settings()) {
        constexpr std::uint64_t at_once = 5;
        std::mutex mutex;
        collect_report all;
        for_each_in_parallel(options().programs_or(50, 10) / at_once, [&](std::size_t job) {
            collect_explorer explorer(one.setting);
            for (std::uint64_t i = 0; i < at_once && !explorer.failed(); ++i) {
                explorer.run_random(job * at_once + i, 30);
            }
            const std::lock_guard lock{mutex};
            all += explorer.report();
        });
        print(one.name + ", random", all);
        ASSERT_TRUE(all.violations.empty()) << all.violations.front();
        EXPECT_GT(all.recovery_images, 100U);
    }
}

}  // namespace
}  // namespace holdfast::simulator

int main(int count, char** arguments) { return holdfast::simulator::simulator_main(count, arguments); }
