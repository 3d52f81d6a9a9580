// SIGKILL at any moment of durability `atomic`, with an oracle in another process.
//
// Fault model: a process with four threads dies between any two instructions of each, and inside any system call; what
// was stored to the files stays. After each death every call that returned is there, each call in flight is there as a
// whole or not at all, the blocks hold what was put into them, and the allocated blocks are those that a destination
// points to and no others. By hand: atomic_kill_test --cycles N --seed N.
#include <gtest/gtest.h>

#include "kill/cycles.hpp"
#include "kill/destination_oracle.hpp"

namespace holdfast::test::destinations {
namespace {

void run(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    const oracle_tally found = run_kills<oracle>(parent, cycles, 120, seed, durability::atomic);
    expect_often(found.in_flight_before + found.in_flight_after, cycles, 4);
    expect_often(found.pending, cycles, 4);
}

TEST(atomic_kill, any_moment_in_memory_file_system_leaves_whole_calls) {
    run(options().memory_directory, cycles_in_memory(), options().seed);
}

TEST(atomic_kill, any_moment_on_disk_leaves_whole_calls) {
    run(options().disk_directory, cycles_on_disk(), options().seed + 1);
}

}  // namespace
}  // namespace holdfast::test::destinations

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 3000); }
