// The log (src/log/) without power: crash images of every scenario and of random programs are opened; what the opening
// does, and the next session, are cut as well. By hand: log_crash_test --programs N.
//
// Oracle: the records that come back are those of the commits, in their order, none missing before the last one that
// was acknowledged, and none that was never written. What an opening has shown stays.
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "simulator/log/log_client.hpp"
#include "simulator/parallel.hpp"
#include "simulator/simulator_main.hpp"
#include "simulator/storage/fault_injecting_storage.hpp"

namespace holdfast::simulator {
namespace {

explore_options effort() {
    explore_options chosen;
    chosen.cuts = {choice_limits{1024, 128, 128, 128}, choice_limits{64, 16, 16, 16}, choice_limits{8, 2, 2, 2}};
    chosen.images_below_one = options().quick ? 10 : 60;
    return chosen;
}

TEST(log_crash_test, every_image_opens_with_what_was_acknowledged) {
    std::vector<log_scenario> jobs = log_scenarios();
    for (std::uint64_t seed = 1; seed <= options().programs_or(30, 8); ++seed) {
        jobs.push_back(random_log_scenario(seed));
    }
    std::mutex mutex;
    explore_report total;
    for_each_in_parallel(jobs.size(), [&](std::size_t i) {
        auto report = explore(jobs[i], i % 4 == 3 ? 8 : 512, effort());
        for (std::string& violation : report.violations) {
            violation.insert(0, jobs[i].name + ": ");
        }
        const std::lock_guard lock{mutex};
        total += report;
    });
    std::printf("%llu images, %llu openings, %llu cuts\n", static_cast<unsigned long long>(total.images()),
                static_cast<unsigned long long>(total.trials), static_cast<unsigned long long>(total.cuts));
    EXPECT_TRUE(total.violations.empty()) << total.violations.front();
    EXPECT_GE(total.images(), options().quick ? 50'000U : 1'000'000U);
}

/// Every call of a session that fills, releases and reuses files fails, once and from then on.
TEST(log_crash_test, a_call_that_fails_takes_nothing_away) {
    std::uint64_t faults = 0;
    for (const auto how : {fault_plan::repeat::once, fault_plan::repeat::from_then_on}) {
        for (const int error : {EIO, ENOSPC}) {
            for (std::uint64_t call = 1;; ++call) {
                simulated_storage device(512);
                device.run_in_peace();
                make_log_home(device);
                fault_injecting_storage faulty(device);
                log_client own(faulty);
                faulty.plan({call, error, how});
                std::uint64_t acknowledged = 0;
                bool goes_on = own.open().empty();
                for (unsigned round = 0; round < 6 && goes_on; ++round) {
                    goes_on = own.append(4).ok() && own.wait().ok();
                    acknowledged = goes_on ? own.commits() : acknowledged;
                    goes_on = goes_on && own.checkpoint().ok();
                }
                const std::uint64_t appended = own.commits();
                own.close();
                const bool reached = faulty.faults() != 0;
                log_client again(device);
                ASSERT_EQ(again.open(), "") << "call " << call;
                EXPECT_GE(again.commits(), acknowledged) << "call " << call;
                EXPECT_LE(again.commits(), appended) << "call " << call;
                ASSERT_TRUE(again.append(6).ok());
                ASSERT_TRUE(again.wait().ok());
                if (!reached) {
                    break;
                }
                ++faults;
            }
        }
    }
    EXPECT_GT(faults, 200U);
}

}  // namespace
}  // namespace holdfast::simulator

int main(int count, char** arguments) { return holdfast::simulator::simulator_main(count, arguments); }
