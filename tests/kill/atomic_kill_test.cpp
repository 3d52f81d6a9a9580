// SIGKILL at any moment of durability `atomic`, with an oracle in another process.
//
// Fault model: a process with four threads dies between any two instructions of each, and inside any system call; what
// was stored to the files stays. After each death every call that returned is there, each call in flight is there as a
// whole or not at all, the blocks hold what was put into them, and the allocated blocks are those that a destination
// points to and no others. By hand: atomic_kill_test --cycles N --seed N.
#include <chrono>
#include <filesystem>
#include <iostream>

#include <gtest/gtest.h>

#include "kill/destination_oracle.hpp"
#include "kill/observer.hpp"
#include "kill/options.hpp"

namespace holdfast::test::destinations {
namespace {

void run_cycles(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    constexpr std::uint64_t cycles_a_heap = 120;
    scratch_directory directory(parent);
    oracle watcher(directory.path(), seed, durability::atomic);
    const auto start = std::chrono::steady_clock::now();
    std::string wrong = watcher.next_heap();
    while (watcher.numbers().cycles < cycles && wrong.empty()) {
        wrong = watcher.cycle();
        if (wrong.empty() && watcher.numbers().cycles % cycles_a_heap == 0) {
            wrong = watcher.next_heap();
        }
    }
    watcher.numbers().print(std::cout, "kill -9 in " + std::filesystem::absolute(parent).string());
    std::cout << "  " << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() << " s"
              << std::endl;
    if (!wrong.empty()) {
        directory.keep();
    }
    EXPECT_EQ(wrong, "") << "cycle " << watcher.numbers().cycles << " of seed " << seed << ", kept in "
                         << directory.path();
    // A run that never cuts a call off proves nothing.
    EXPECT_GT(watcher.numbers().in_flight_before + watcher.numbers().in_flight_after, cycles / 4);
    EXPECT_GT(watcher.numbers().pending, cycles / 4);
}

TEST(atomic_kill, any_moment_in_memory_file_system_leaves_whole_calls) {
    run_cycles(options().memory_directory, options().cycles * 9 / 10, options().seed);
}

TEST(atomic_kill, any_moment_on_disk_leaves_whole_calls) {
    run_cycles(options().disk_directory, options().cycles - options().cycles * 9 / 10, options().seed + 1);
}

}  // namespace
}  // namespace holdfast::test::destinations

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 3000); }
