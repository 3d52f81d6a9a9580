// Every step that makes a commit of the store durable, and every check of what is read, is needed: if one is left out,
// the crash simulator finds an image that is wrong.
#include <map>
#include <mutex>
#include <string>

#include <gtest/gtest.h>

#include "persist/mutant.hpp"
#include "simulator/mutant_runner.hpp"
#include "simulator/parallel.hpp"
#include "simulator/simulator_main.hpp"
#include "simulator/store/store_life.hpp"

namespace holdfast::simulator {
namespace {

constexpr unsigned seconds_a_mutant = 120;
constexpr std::uint64_t images_of_a_life = 400;
constexpr std::uint64_t lives = 32;

const std::map<std::string, std::string>& equivalent_sites() {
    static const std::map<std::string, std::string> sites{
        {"log.read.chain", "As store.log.epoch."},
        {"log.read.checksum", "log_mutants_test finds it: here a part of a header is lost with its payload."},
        {"store.create.name", "A store promises nothing before its first sync, which syncs its name."},
        {"store.create.meta_sync", "As store.create.name: the first sync is one of all."},
        {"store.create.sync", "What lies behind the meta that is written next is zeros, as in blocks without content."},
        {"store.create.write", "It writes zeros over zeros: blocks that were written cost syncs of the log less."},
        {"store.log.clear", "As store.create.write: no record is valid where other bytes lie."},
        {"store.log.epoch", "torn_records of store_crash_test find it: lives repeat no commit."},
        {"store.log.erase", "torn_records of store_crash_test find it: no two values of a life are alike."},
        {"store.erase.sync", "As store.log.erase."},
        {"store.erase.write", "As store.log.erase."},
        {"store.punch", "It gives space back."},
        {"store.trim", "As store.punch."},
    };
    return sites;
}

store_report live_as(std::uint64_t number) {
    return live(kind_of(number), medium_of(number), 1000 + number, images_of_a_life);
}

std::string notice(const std::string& /*site*/) {
    for (std::uint64_t number = 0; number < lives; ++number) {
        if (const store_report one = live_as(number); !one.wrong.empty()) {
            return "life " + std::to_string(number) + ": " + one.wrong;
        }
    }
    return {};
}

TEST(store_mutants, each_is_killed) {
    if (!options().mutants.empty()) {
        expect_all_killed(run_mutants(options().mutants, seconds_a_mutant, notice), {}, options().mutants.size());
        return;
    }
    persist::forget_sites();
    std::mutex mutex;
    std::string wrong;
    for_each_in_parallel(lives, [&](std::size_t i) {
        const store_report one = live_as(i);
        const std::lock_guard lock{mutex};
        wrong += one.wrong.empty() ? "" : std::to_string(i) + ": " + one.wrong + "\n";
    });
    ASSERT_TRUE(wrong.empty()) << "with nothing left out: " << wrong;
    expect_all_killed(run_mutants(mutant_sites({"simulator.", "turn."}), seconds_a_mutant, notice), equivalent_sites(),
                      15);
}

}  // namespace
}  // namespace holdfast::simulator

int main(int count, char** arguments) { return holdfast::simulator::simulator_main(count, arguments); }
