// A heap with a store in it on real file systems that lose power (store/heap_store_watcher.hpp). By hand:
// heap_store_powerloss_test --cycles N --seed N.
#include <string>

#include <gtest/gtest.h>

#include "powerloss/mounts.hpp"
#include "store/heap_store_watcher.hpp"

namespace holdfast::test {
namespace {

using domain_choice = open_options::domain_choice;

void run(file_system_kind kind, std::uint64_t cycles, durability wanted, domain_choice domain) {
    const std::string why = mounts_unavailable().empty() ? unavailable(kind) : mounts_unavailable();
    if (!why.empty()) {
        report_unavailable(why);
        GTEST_SKIP();
    }
    image_file_system files(kind, std::uint64_t{512} << 20U);
    heap_store_watcher watcher(files.path(), wanted, domain, options().seed);
    watcher.use_power_loss([&] { files.shut_down(); }, [&] { files.mount_again(); });
    run_cycles(watcher, std::string("power loss of ") + name_of(kind), cycles, 20);
    EXPECT_GT(watcher.numbers().changes, 0U);
}

TEST(heap_store_powerloss, what_returned_is_in_both_on_ext4) {
    run(file_system_kind::ext4, options().cycles / 2, durability::atomic, domain_choice::disk);
}
TEST(heap_store_powerloss, what_returned_is_in_both_on_xfs) {
    run(file_system_kind::xfs, options().cycles / 4, durability::atomic, domain_choice::disk);
}
TEST(heap_store_powerloss, commits_of_the_heap_have_both_on_ext4) {
    run(file_system_kind::ext4, options().cycles / 4, durability::commit, domain_choice::detect);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 100); }
