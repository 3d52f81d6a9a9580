// Power loss of real file systems under processes that write and read one store, with the oracle of the kill tests.
//
// At any moment the file system stops writing, its log included; after the next mount the store holds no less than what
// was acknowledged. By hand: store_powerloss_test --cycles N --seed N.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "base/scratch_test_support.hpp"
#include "kill/options.hpp"
#include "powerloss/mounts.hpp"
#include "store/crash_world.hpp"
#include "store/random_program.hpp"

namespace {

/// This process dies when it is about to make the meta of a checkpoint durable.
bool dies_before_a_meta_is_synced = false;

}  // namespace

// A library that is loaded with `program_first` calls this function, not that of the C library.
extern "C" int msync(void* address, std::size_t size, int flags) {
    if (dies_before_a_meta_is_synced && std::memcmp(address, "HFSTORE\n", 8) == 0) {
        ::kill(::getpid(), SIGKILL);
    }
    return static_cast<int>(::syscall(SYS_msync, address, size, flags));
}

namespace holdfast::test {
namespace {

/// XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN, which are one.
constexpr unsigned long shut_down_request = _IOR('X', 125, std::uint32_t);
constexpr std::uint32_t without_log = 2;
constexpr unsigned cycles_of_a_store = 15;
constexpr std::uint64_t unsynced_commits = 2500;
constexpr off_t behind_metas = 2 * 4096;
constexpr std::size_t quota = std::size_t{64} << 20U;

class power_cuts {
public:
    power_cuts(const lmdb_library& library, file_system_kind kind, std::uint64_t seed)
        : library_(library), files_(kind, std::uint64_t{384} << 20U), random_(seed) {}

    void run(std::uint64_t cycles) {
        std::uint64_t commits = 0;
        for (std::uint64_t cycle = 0; cycle < cycles && !testing::Test::HasFailure(); ++cycle) {
            SCOPED_TRACE("cycle " + std::to_string(cycle));
            if (cycle % cycles_of_a_store == 0) {
                commits += oracle_ ? oracle_->operator->()->commits.load() : 0;
                new_store();
            }
            one_cycle();
        }
        commits += oracle_->operator->()->commits;
        std::cout << cycles << " power cuts, " << commits << " commits acknowledged\n";
        EXPECT_GT(commits, cycles);
    }

    /// A process dies before the meta of its checkpoint is durable, another one goes on from that checkpoint and writes
    /// its log over, and then power fails: what both acknowledged must be there.
    void run_with_deaths(std::uint64_t cycles) {
        new_store();
        for (std::uint64_t cycle = 0; cycle < cycles && !testing::Test::HasFailure(); ++cycle) {
            SCOPED_TRACE("cycle " + std::to_string(cycle));
            crash_oracle& oracle = **oracle_;
            oracle.stopping = 0;
            {
                const base::child_process dies([&] {
                    dies_before_a_meta_is_synced = true;
                    return write_transactions(plan_, oracle, 0);
                });
                ASSERT_TRUE(dies.ends_within(60'000'000'000)) << "there was no checkpoint";
            }
            const base::child_process goes_on([&] { return write_transactions(plan_, oracle, 1); });
            const std::uint64_t before = oracle.commits;
            ASSERT_TRUE(goes_on.runs_until([&] { return oracle.commits >= before + 2; }));
            lose_power();
            files_.mount_again();
            ASSERT_EQ(model_->examine(plan_, oracle), "");
            oracle.started = model_->version();
            oracle.acknowledged = model_->version();
        }
    }

    /// A process that syncs, then one that does not, beside it or when it is gone; then the kernel writes back all
    /// pages but the metas, and power fails: what the first acknowledged must be there.
    void run_with_unsynced(std::uint64_t cycles) {
        new_store();
        crash_plan unsynced = plan_;
        unsynced.flags = MDB_NOSYNC;
        unsynced.acknowledges = false;
        for (std::uint64_t cycle = 0; cycle < cycles && !testing::Test::HasFailure(); ++cycle) {
            SCOPED_TRACE("cycle " + std::to_string(cycle));
            crash_oracle& oracle = **oracle_;
            oracle.stopping = 0;
            std::uint64_t before = oracle.commits;
            auto syncs = std::make_unique<base::child_process>([&] { return write_transactions(plan_, oracle, 0); });
            ASSERT_TRUE(syncs->runs_until([&] { return oracle.commits >= before + 3; }));
            if (cycle % 2 == 0) {
                syncs.reset();
            }
            auto syncs_not =
                std::make_unique<base::child_process>([&] { return write_transactions(unsynced, oracle, 1); });
            before = oracle.commits;
            // Two or three laps of the log.
            ASSERT_TRUE(syncs_not->runs_until([&] { return oracle.commits >= before + unsynced_commits; }));
            write_back_all_but_metas();
            lose_power();
            syncs.reset();
            syncs_not.reset();
            files_.mount_again();
            ASSERT_EQ(model_->examine(plan_, oracle), "");
            oracle.started = model_->version();
            oracle.acknowledged = model_->version();
        }
    }

private:
    void write_back_all_but_metas() const {
        const int data = ::open((plan_.directory + "/data.mdb").c_str(), O_RDONLY | O_CLOEXEC);
        ASSERT_GE(data, 0);
        constexpr unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
        ASSERT_EQ(::sync_file_range(data, behind_metas, 0, all), 0);
        ::close(data);
    }

    void lose_power() {
        (*oracle_)->stopping = 1;
        const int root = ::open(files_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        std::uint32_t mode = without_log;
        ASSERT_EQ(::ioctl(root, shut_down_request, &mode), 0);
        ::close(root);
    }

    void new_store() {
        const std::string directory = files_.path() + "/store";
        std::filesystem::remove_all(directory);
        std::filesystem::create_directory(directory);
        ::sync();
        plan_ = {&library_, directory, 0, random_.next(), quota};
        oracle_ = std::make_unique<base::shared_memory<crash_oracle>>();
        model_ = std::make_unique<crash_model>(plan_.seed);
    }

    void one_cycle() {
        crash_oracle& oracle = **oracle_;
        oracle.stopping = 0;
        std::vector<std::unique_ptr<base::child_process>> children;
        for (std::uint64_t i = 0; i < 2; ++i) {
            children.push_back(
                std::make_unique<base::child_process>([&, i] { return write_transactions(plan_, oracle, i); }));
        }
        children.push_back(std::make_unique<base::child_process>([&] { return read_transactions(plan_, oracle); }));
        const std::uint64_t before = oracle.commits;
        const auto start = std::chrono::steady_clock::now();
        while (oracle.commits < before + 3 && !children[0]->ends_within(100'000) &&
               std::chrono::steady_clock::now() < start + std::chrono::seconds(20)) {
        }
        static_cast<void>(children[0]->ends_within(random_.below(30'000'000)));
        lose_power();
        static_cast<void>(children[2]->ends_within(random_.below(3'000'000)));
        children.clear();
        files_.mount_again();
        ASSERT_EQ(model_->examine(plan_, oracle), "");
        oracle.started = model_->version();
        oracle.acknowledged = model_->version();
    }

    const lmdb_library& library_;
    image_file_system files_;
    random_words random_;
    crash_plan plan_{};
    std::unique_ptr<base::shared_memory<crash_oracle>> oracle_;
    std::unique_ptr<crash_model> model_;
};

/// Calls `test` where the library and the file system are there.
void run_if_possible(const char* library, file_system_kind kind, const std::function<void()>& test) {
    if (!has_lmdb(library)) {
        GTEST_SKIP() << "NOT TESTED HERE: there is no library " << library;
    }
    if (!mounts_unavailable().empty()) {
        report_unavailable(mounts_unavailable());
        GTEST_SKIP() << mounts_unavailable();
    }
    if (const std::string why = unavailable(kind); !why.empty()) {
        report_unavailable(why);
        GTEST_SKIP() << why;
    }
    test();
}

void cut_power(const char* library, file_system_kind kind, std::uint64_t cycles, std::uint64_t seed) {
    run_if_possible(library, kind, [&] { power_cuts(lmdb(library), kind, seed).run(cycles); });
}

TEST(store_powerloss, of_ext4_leaves_what_was_acknowledged) {
    cut_power("holdfast", file_system_kind::ext4, options().cycles / 2, options().seed);
}

TEST(store_powerloss, of_xfs_leaves_what_was_acknowledged) {
    cut_power("holdfast", file_system_kind::xfs, options().cycles / 2, options().seed + 1);
}

TEST(store_powerloss, after_a_death_in_a_checkpoint_leaves_what_was_acknowledged) {
    run_if_possible("holdfast", file_system_kind::ext4, [] {
        const base::scratch_directory place;
        const std::string copy = place.path() + "/liblmdb.so.0";  // a file that is not loaded yet
        std::filesystem::copy_file(lmdb("holdfast").path, copy);
        const lmdb_library library(copy, true);
        power_cuts(library, file_system_kind::ext4, options().seed + 3)
            .run_with_deaths(std::max<std::uint64_t>(options().cycles / 20, 2));
    });
}

TEST(store_powerloss, beside_or_after_processes_without_syncs_leaves_what_was_acknowledged) {
    run_if_possible("holdfast", file_system_kind::ext4, [] {
        power_cuts(lmdb("holdfast"), file_system_kind::ext4, options().seed + 4)
            .run_with_unsynced(std::max<std::uint64_t>(options().cycles / 10, 3));
    });
}

// It shows that the test is right; a tenth of the cycles is enough for that.
TEST(store_powerloss, of_ext4_under_debians_library_leaves_what_was_acknowledged) {
    cut_power("debian", file_system_kind::ext4, options().cycles / 10, options().seed + 2);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 300); }
