// Power loss of real file systems, with an oracle outside.
//
// Fault model: at any moment the file system stops writing, its log included (the ioctl GOINGDOWN of XFS and ext4,
// without a flush of the log); what it had not made durable is lost. After the next mount the heap is the last
// acknowledged commit or the one in flight, sound in every invariant; nothing that was acknowledged is missing. The
// writer is killed at that moment, or goes on and must not acknowledge what is lost. Btrfs cannot be stopped: there the
// writer is killed, and what the device has at that moment is what is left.
#include <gtest/gtest.h>

#include "kill/bank.hpp"
#include "kill/cycles.hpp"
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

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 300); }
