// SIGKILL at any moment, with an oracle in another process.
//
// Fault model: a process dies between any two instructions, and inside any system call; what it wrote to files stays.
// After each death the heap is the last acknowledged commit or the one in flight, sound in every invariant, without a
// leak; and the next victim goes on with it.
#include <chrono>
#include <filesystem>
#include <iostream>

#include <gtest/gtest.h>

#include "kill/observer.hpp"
#include "kill/options.hpp"

namespace holdfast::test {
namespace {

void run_cycles(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    constexpr std::uint64_t cycles_a_heap = 40;
    scratch_directory directory(parent);
    observer watcher(directory.path(), seed);
    const auto start = std::chrono::steady_clock::now();
    std::string wrong = watcher.next_heap();
    while (watcher.numbers().cycles < cycles && wrong.empty()) {
        wrong = watcher.cycle();
        if (wrong.empty()) {
            wrong = watcher.examine_remains();
        }
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
    EXPECT_EQ(wrong, "") << "seed " << seed << ", kept in " << directory.path();
    // A run that never hits a commit proves nothing.
    EXPECT_GT(watcher.numbers().inside_commit, cycles / 10);
}

TEST(kill, any_moment_in_memory_file_system_leaves_a_commit) {
    run_cycles(options().memory_directory, options().cycles * 9 / 10, options().seed);
}

TEST(kill, any_moment_on_disk_leaves_a_commit) {
    run_cycles(options().disk_directory, options().cycles - options().cycles * 9 / 10, options().seed + 1);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 2000); }
