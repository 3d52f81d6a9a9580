// SIGKILL at any moment, with an oracle in another process.
//
// Fault model: a process dies between any two instructions, and inside any system call; what it wrote to files stays.
// After each death the heap is the last acknowledged commit or the one in flight, sound in every invariant, without a
// leak; and the next victim goes on with it.
#include <gtest/gtest.h>

#include "kill/cycles.hpp"
#include "kill/observer.hpp"

namespace holdfast::test {
namespace {

void run(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    const tally found = run_kills<observer>(parent, cycles, 40, seed);
    expect_often(found.inside_commit, cycles, 10);
}

TEST(kill, any_moment_in_memory_file_system_leaves_a_commit) {
    run(options().memory_directory, cycles_in_memory(), options().seed);
}

TEST(kill, any_moment_on_disk_leaves_a_commit) { run(options().disk_directory, cycles_on_disk(), options().seed + 1); }

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 2000); }
