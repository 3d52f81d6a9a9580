// Power loss of real file systems, with an oracle outside.
//
// Fault model: at any moment the file system stops writing, its log included (the ioctl GOINGDOWN of XFS and ext4,
// without a flush of the log); what it had not made durable is lost. After the next mount the heap is the last
// acknowledged commit or the one in flight, sound in every invariant; nothing that was acknowledged is missing. The
// writer is killed at that moment, or goes on and must not acknowledge what is lost. Btrfs cannot be stopped: there the
// writer is killed, and what the device has at that moment is what is left.
#include <atomic>
#include <csignal>

#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "base/process_test_support.hpp"
#include "kill/bank.hpp"
#include "kill/basket_watcher.hpp"
#include "kill/cycles.hpp"
#include "kill/index_watcher.hpp"
#include "kill/observer.hpp"
#include "powerloss/mounts.hpp"

namespace holdfast::test {
namespace {

/// Says why where it is not.
bool is_available(file_system_kind kind) {
    const std::string why = mounts_unavailable().empty() ? unavailable(kind) : mounts_unavailable();
    if (!why.empty()) {
        report_unavailable(why);
    }
    return why.empty();
}

void run(file_system_kind kind, std::uint64_t megabytes, std::uint64_t cycles, std::uint64_t seed) {
    if (!is_available(kind)) {
        GTEST_SKIP();
    }
    const bool can_stop = kind != file_system_kind::btrfs;
    image_file_system files(kind, megabytes << 20U);
    observer watcher(files.path(), seed);
    watcher.use_power_loss(can_stop, [&] { can_stop ? files.mount_again() : files.lose_power(); });
    run_cycles(watcher, std::string("power loss of ") + name_of(kind), cycles, 20);
    expect_often(watcher.numbers().inside_commit, cycles, 10);
}

// Half of the cycles are of ext4.
TEST(powerloss, any_moment_on_ext4_leaves_a_commit) {
    run(file_system_kind::ext4, 768, options().cycles / 2, options().seed);
}

TEST(powerloss, any_moment_on_xfs_leaves_a_commit) {
    run(file_system_kind::xfs, 768, options().cycles / 4, options().seed + 1);
}

TEST(powerloss, any_moment_on_btrfs_leaves_a_commit) {
    run(file_system_kind::btrfs, 768, options().cycles / 4, options().seed + 2);
}

/// Transactions in the domain `disk`: all that returned are there, also those that returned after the power went.
void run_bank(file_system_kind kind, std::uint64_t cycles, std::uint64_t seed) {
    if (!is_available(kind)) {
        GTEST_SKIP();
    }
    image_file_system files(kind, std::uint64_t{512} << 20U);
    bank_watcher watcher(files.path(), durability::atomic, seed, {open_options::domain_choice::disk});
    watcher.use_power_loss([&] { files.shut_down(); }, [&] { files.mount_again(); });
    run_cycles(watcher, std::string("transactions and power loss of ") + name_of(kind), cycles, 30);
    const bank_tally& found = watcher.numbers();
    expect_often(found.in_flight_before + found.in_flight_after, cycles, 2);
    EXPECT_GT(found.transactions, cycles);
    EXPECT_GT(found.refused, 0U) << "no teller has noticed that the disk is gone";
}

TEST(powerloss, transactions_that_returned_are_there_on_ext4) {
    run_bank(file_system_kind::ext4, options().cycles / 2, options().seed + 3);
}

TEST(powerloss, transactions_that_returned_are_there_on_xfs) {
    run_bank(file_system_kind::xfs, options().cycles / 2, options().seed + 4);
}

/// Transactions over everything, in durability `commit`: all that returned are there, whole.
void run_baskets(file_system_kind kind, std::uint64_t cycles, std::uint64_t seed) {
    if (!is_available(kind)) {
        GTEST_SKIP();
    }
    image_file_system files(kind, std::uint64_t{512} << 20U);
    basket_watcher watcher(files.path(), seed);
    watcher.use_power_loss([&] { files.shut_down(); }, [&] { files.mount_again(); });
    run_cycles(watcher, std::string("transactions over everything and power loss of ") + name_of(kind), cycles, 30);
    const basket_tally& found = watcher.numbers();
    EXPECT_GT(found.changes, cycles);
    EXPECT_GT(found.refused, 0U) << "no thread has noticed that the disk is gone";
}

TEST(powerloss, transactions_over_everything_that_returned_are_there_on_ext4) {
    run_baskets(file_system_kind::ext4, options().cycles / 4, options().seed + 12);
}

TEST(powerloss, transactions_over_everything_that_returned_are_there_on_xfs) {
    run_baskets(file_system_kind::xfs, options().cycles / 4, options().seed + 13);
}

/// Indexes in the domain `disk`: all changes that returned are there, also those that returned after the power went.
template <template <class, class> class Index>
void run_indexes(file_system_kind kind, std::uint64_t cycles, std::uint64_t seed) {
    if (!is_available(kind)) {
        GTEST_SKIP();
    }
    image_file_system files(kind, std::uint64_t{512} << 20U);
    index_watcher<index_pair<Index>> watcher(files.path(), seed);
    watcher.use_power_loss([&] { files.shut_down(); }, [&] { files.mount_again(); });
    run_cycles(watcher, std::string("indexes and power loss of ") + name_of(kind), cycles, 100);
    const index_tally& found = watcher.numbers();
    expect_often(found.in_flight_before + found.in_flight_after, cycles, 2);
    EXPECT_GT(found.changes, cycles);
    EXPECT_GT(found.refused, 0U) << "no thread has noticed that the disk is gone";
}

TEST(powerloss, entries_that_returned_are_there_on_ext4) {
    run_indexes<ordered_index>(file_system_kind::ext4, options().cycles / 4, options().seed + 5);
    run_indexes<hash_index>(file_system_kind::ext4, options().cycles / 4, options().seed + 6);
}

TEST(powerloss, entries_that_returned_are_there_on_xfs) {
    run_indexes<ordered_index>(file_system_kind::xfs, options().cycles / 4, options().seed + 7);
    run_indexes<hash_index>(file_system_kind::xfs, options().cycles / 4, options().seed + 8);
}

/// One session dies, which did not survive a loss of power; the next one promises that, and power fails.
struct two_sessions {
    const char* name;
    open_options first;
    open_options second;
};
class sessions_of_two_kinds : public testing::TestWithParam<two_sessions> {};

constexpr std::uint64_t number_count = 1'000'000;  // of 8 bytes, so in several segments
std::uint64_t number(std::uint64_t index) { return (index + 1) * 0x9e3779b97f4a7c15U; }

bool has_all_numbers(manager& heap) {
    auto* const numbers = heap.find<vector<std::uint64_t>>("numbers").first;
    if (numbers == nullptr || numbers->size() != number_count || !heap.check(false).empty()) {
        return false;
    }
    for (std::uint64_t i = 0; i < number_count; ++i) {
        if ((*numbers)[i] != number(i)) {
            return false;
        }
    }
    return true;
}

TEST_P(sessions_of_two_kinds, what_the_second_found_survives_a_loss_of_power) {
    if (!is_available(file_system_kind::ext4)) {
        GTEST_SKIP();
    }
    image_file_system files(file_system_kind::ext4, std::uint64_t{256} << 20U);
    const std::string path = files.path() + "/heap";
    open_options first = GetParam().first;
    first.segment_size = std::uint64_t{2} << 20U;
    open_options second = GetParam().second;
    const base::child_process dies([&] {
        manager heap(create_only, path, first);
        heap.construct<std::uint64_t>("mark")();
        auto* const numbers = heap.construct<vector<std::uint64_t>>("numbers")();
        for (std::uint64_t i = 0; i < number_count; ++i) {
            numbers->push_back(number(i));
        }
        ::raise(SIGKILL);
    });
    ASSERT_TRUE(dies.ends_within(60'000'000'000));
    base::shared_memory<std::atomic<int>> found;
    base::child_process goes_on([&] {
        manager heap(open_only, path, second);
        const bool all = has_all_numbers(heap);
        std::uint64_t& mark = *heap.find<std::uint64_t>("mark").first;
        if (second.durability == durability::commit) {
            mark = 1;
            heap.commit();
        } else {
            heap.transact([&](transaction& tx) { tx.store(mark, 1); });
        }
        found->store(all ? 1 : 2);
        ::pause();
    });
    ASSERT_TRUE(goes_on.runs_until([&] { return found->load() != 0; }));
    ASSERT_EQ(found->load(), 1);
    files.shut_down();
    goes_on.kill();
    files.mount_again();
    manager heap(open_only, path, second);
    EXPECT_TRUE(has_all_numbers(heap));
}

open_options options_of(durability kind, open_options::domain_choice domain) {
    open_options chosen;
    chosen.durability = kind;
    chosen.domain = domain;
    chosen.accept_process_crash_only = domain == open_options::domain_choice::page_cache;
    return chosen;
}
INSTANTIATE_TEST_SUITE_P(
    powerloss, sessions_of_two_kinds,
    testing::Values(two_sessions{"atomic_on_the_page_cache_then_disk",
                                 options_of(durability::atomic, open_options::domain_choice::page_cache),
                                 options_of(durability::atomic, open_options::domain_choice::disk)},
                    two_sessions{"atomic_on_the_page_cache_then_commit",
                                 options_of(durability::atomic, open_options::domain_choice::page_cache),
                                 options_of(durability::commit, open_options::domain_choice::detect)},
                    two_sessions{"collect_then_commit",
                                 options_of(durability::collect, open_options::domain_choice::page_cache),
                                 options_of(durability::commit, open_options::domain_choice::detect)}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 300); }
