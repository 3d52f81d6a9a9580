// Transactions over everything (manager::transact()) and kill -9 (basket_watcher.hpp).
#include <string>

#include <gtest/gtest.h>

#include "kill/basket_watcher.hpp"
#include "kill/cycles.hpp"

namespace holdfast::test {
namespace {

void kill_fillers(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    const basket_tally found = run_kills<basket_watcher>(parent, cycles, 40, seed);
    EXPECT_GT(found.changes, cycles);
    expect_often(found.in_flight_before, cycles, 4);
}

TEST(transact_kill, leaves_whole_transactions_in_memory_file_system) {
    kill_fillers(options().memory_directory, cycles_in_memory(), options().seed + 4);
}

TEST(transact_kill, leaves_whole_transactions_on_disk) {
    kill_fillers(options().disk_directory, cycles_on_disk(), options().seed + 5);
}

}  // namespace
}  // namespace holdfast::test
