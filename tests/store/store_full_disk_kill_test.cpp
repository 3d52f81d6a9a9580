// Stores on a disk that another program fills and empties, beside SIGKILL at any moment.
//
// No process dies by a signal of its own, what was acknowledged is there afterwards and nothing else is, and the store
// opens when the other program has gone. By hand: store_full_disk_kill_test --cycles N --seed N.
#include <chrono>
#include <filesystem>
#include <memory>

#include <gtest/gtest.h>

#include "full_disk/full_disks.hpp"
#include "kill/options.hpp"
#include "store/crash_world.hpp"
#include "store/random_program.hpp"

namespace holdfast::test {
namespace {

constexpr unsigned cycles_of_a_store = 40;
constexpr std::size_t limit = std::size_t{256} << 20U;  // more than the disks have

class full_disk_cycles {
public:
    full_disk_cycles(const lmdb_library& library, std::uint64_t seed) : library_(library), random_(seed) {}

    void run(std::uint64_t cycles) {
        for (std::uint64_t cycle = 0; cycle < cycles && !testing::Test::HasFailure(); ++cycle) {
            if (cycle % cycles_of_a_store == 0) {
                new_store(cycle / cycles_of_a_store % 2 == 0);
            }
            SCOPED_TRACE("cycle " + std::to_string(cycle) + ", environment flags " + std::to_string(plan_.flags));
            one_cycle();
        }
        std::cout << cycles << " cycles, " << commits_ << " commits acknowledged\n";
        EXPECT_GT(commits_, cycles);
    }

private:
    void new_store(bool on_ext4) {
        memory_.reset();
        image_.reset();
        if (on_ext4 && unavailable(file_system_kind::ext4).empty()) {
            image_ = std::make_unique<image_file_system>(file_system_kind::ext4, 32 * mebibyte);
        } else {
            memory_ = std::make_unique<memory_file_system>("size=16m");
        }
        disk_ = image_ ? image_->path() : memory_->path();
        constexpr unsigned flags[] = {0, MDB_NOSYNC, MDB_NOMETASYNC, MDB_WRITEMAP | MDB_NOSYNC};
        const std::string at = disk_ + "/store";
        std::filesystem::create_directory(at);
        plan_ = {.library = &library_,
                 .directory = at,
                 .flags = flags[random_.below(std::size(flags))],
                 .seed = random_.next(),
                 .map_size = limit,
                 .full_disk_is_expected = true};
        oracle_ = std::make_unique<base::shared_memory<crash_oracle>>();
        model_ = std::make_unique<crash_model>(plan_.seed);
    }

    void one_cycle() {
        crash_oracle& oracle = **oracle_;
        const std::uint64_t before = oracle.commits;
        base::child_process writer([&] { return write_transactions(plan_, oracle, 0); });
        base::child_process reader([&] { return read_transactions(plan_, oracle); });
        ASSERT_TRUE(writer.runs_until([&] { return oracle.commits > before; }));
        for (int times = 0; times < 3; ++times) {
            static_cast<void>(writer.ends_within(random_.below(10'000'000)));
            const ballast full(disk_, 0);
            static_cast<void>(writer.ends_within(random_.below(10'000'000)));
        }
        EXPECT_TRUE(reader.kill().was_killed());
        const base::process_end end = writer.kill();
        EXPECT_TRUE(end.was_killed()) << end;
        EXPECT_EQ(model_->examine(plan_, oracle), "");
        commits_ += oracle.commits - before;
    }

    const lmdb_library& library_;
    random_words random_;
    std::unique_ptr<memory_file_system> memory_;
    std::unique_ptr<image_file_system> image_;
    std::string disk_;
    crash_plan plan_{};
    std::unique_ptr<base::shared_memory<crash_oracle>> oracle_;
    std::unique_ptr<crash_model> model_;
    std::uint64_t commits_ = 0;
};

TEST(store_full_disk_kill, leaves_what_was_acknowledged) {
    if (!mounts_unavailable().empty()) {
        report_unavailable(mounts_unavailable());
        GTEST_SKIP() << mounts_unavailable();
    }
    if (!has_lmdb("holdfast")) {
        GTEST_SKIP() << "NOT TESTED HERE: hf_lmdb is not built";
    }
    full_disk_cycles(lmdb("holdfast"), options().seed).run(options().cycles);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 1000); }
