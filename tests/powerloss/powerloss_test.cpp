// Power loss of real file systems, with an oracle outside.
//
// Fault model: at any moment the file system stops writing, its log included (the ioctl GOINGDOWN of XFS and ext4,
// without a flush of the log); what it had not made durable is lost. After the next mount the heap is the last
// acknowledged commit or the one in flight, sound in every invariant; nothing that was acknowledged is missing. The
// writer is killed at that moment, or goes on and must not acknowledge what is lost. Btrfs cannot be stopped: there the
// writer is killed, and what the device has at that moment is what is left.
#include <gtest/gtest.h>

#include "kill/cycles.hpp"
#include "kill/observer.hpp"
#include "powerloss/mounts.hpp"

namespace holdfast::test {
namespace {

void run(file_system_kind kind, std::uint64_t megabytes, std::uint64_t cycles, std::uint64_t seed) {
    if (!mounts_unavailable().empty()) {
        report_unavailable(mounts_unavailable());
        GTEST_SKIP() << mounts_unavailable();
    }
    if (const std::string why = unavailable(kind); !why.empty()) {
        report_unavailable(why);
        GTEST_SKIP() << why;
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

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 300); }
