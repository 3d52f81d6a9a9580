// Ordered and hash indexes and kill -9: the process of kill/index_watcher.hpp is killed at any moment, and what it
// leaves is compared with what had returned. By hand: index_kill_test --cycles N --seed N.
#include <gtest/gtest.h>

#include "kill/cycles.hpp"
#include "kill/index_watcher.hpp"

namespace holdfast::test {
namespace {

template <template <class, class> class Index>
void run(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    const index_tally found = run_kills<index_watcher<index_pair<Index>>>(parent, cycles, 60, seed);
    expect_often(found.in_flight_after, cycles, 200);  // a call is short: between its fence and its return
    expect_often(found.in_flight_before, cycles, 4);
}

TEST(index_kill, leaves_whole_entries_in_memory_file_system) {
    run<ordered_index>(options().memory_directory, cycles_in_memory(), options().seed);
}
TEST(index_kill, leaves_whole_hashed_entries_in_memory_file_system) {
    run<hash_index>(options().memory_directory, cycles_in_memory(), options().seed);
}

TEST(index_kill, leaves_whole_entries_on_disk) {
    run<ordered_index>(options().disk_directory, cycles_on_disk(), options().seed + 1);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 2000); }
