// Transactions and kill -9: the process of a bank is killed at any moment (kill/bank.hpp). By hand:
// transaction_kill_test --cycles N --seed N.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kill/bank.hpp"
#include "kill/cycles.hpp"

namespace holdfast::test {
namespace {

using domain_choice = open_options::domain_choice;

const std::vector on_memory{domain_choice::page_cache, domain_choice::emulated};

void run(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    const bank_tally found =
        run_kills<bank_watcher>(parent, cycles, 120, durability::atomic, seed,
                                std::vector{domain_choice::page_cache, domain_choice::emulated, domain_choice::disk});
    expect_often(found.in_flight_after, cycles, 20);
    expect_often(found.in_flight_before, cycles, 4);
}

TEST(transaction_kill, leaves_whole_transactions_in_memory_file_system) {
    run(options().memory_directory, cycles_in_memory(), options().seed);
}

TEST(transaction_kill, leaves_whole_transactions_on_disk) {
    run(options().disk_directory, cycles_on_disk(), options().seed + 1);
}

TEST(transaction_kill, in_commit_leaves_what_was_committed) {
    const bank_tally found = run_kills<bank_watcher>(options().memory_directory, cycles_in_memory() / 3, 120,
                                                     durability::commit, options().seed + 2, on_memory);
    expect_often(found.transactions, cycles_in_memory() / 3, 1);
}

TEST(transaction_kill, in_collect_leaves_the_blocks_that_are_reached_and_no_others) {
    const bank_tally found = run_kills<bank_watcher>(options().memory_directory, cycles_in_memory() / 3, 120,
                                                     durability::collect, options().seed + 3, on_memory);
    expect_often(found.transactions, cycles_in_memory() / 3, 1);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 2000); }
