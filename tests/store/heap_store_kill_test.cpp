// A heap with a store in it, and kill -9 (store/heap_store_watcher.hpp). By hand: heap_store_kill_test --cycles N
// --seed N.
#include <string>

#include <gtest/gtest.h>

#include "store/heap_store_watcher.hpp"

namespace holdfast::test {
namespace {

using domain_choice = open_options::domain_choice;

void run(const std::string& parent, std::uint64_t cycles, durability wanted, domain_choice domain) {
    const change_tally found = run_kills<heap_store_watcher>(parent, cycles, 60, wanted, domain, options().seed);
    EXPECT_GT(found.changes, 0U);
}

TEST(heap_store_kill, atomic_keeps_what_returned) {
    run(options().memory_directory, cycles_in_memory() / 2, durability::atomic, domain_choice::page_cache);
}
TEST(heap_store_kill, atomic_on_disk_keeps_what_returned) {
    run(options().disk_directory, cycles_on_disk(), durability::atomic, domain_choice::disk);
}
TEST(heap_store_kill, atomic_on_persistent_memory_keeps_what_returned) {
    run(options().memory_directory, cycles_in_memory() / 2, durability::atomic, domain_choice::emulated);
}
TEST(heap_store_kill, commit_keeps_what_the_heap_committed) {
    run(options().memory_directory, cycles_in_memory() / 2, durability::commit, domain_choice::detect);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 400); }
