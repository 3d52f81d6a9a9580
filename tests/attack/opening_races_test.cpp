// Processes that come at once to a path where no heap is yet: one makes it, and no other is told that what is there is
// none.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>

#include "attack/attacked.hpp"
#include "base/process_test_support.hpp"
#include "base/under_qemu.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::attack {
namespace {

using support::scratch_directory;

constexpr int opened = 0;
constexpr int told_locked = 1;

/// What open_or_create comes to; the number of the reason where it is another than `locked`.
int open_or_create_at(const std::string& path, durability wanted) {
    try {
        const manager heap(open_or_create, path, options_for(wanted));
        return opened;
    } catch (const error& what) {
        return what.reason() == errc::locked ? told_locked : 100 + static_cast<int>(what.reason());
    }
}

class races : public testing::TestWithParam<durability> {};

/// Was: `already_exists` or `not_a_heap`, one time in four.
TEST_P(races, of_open_or_create_end_open_or_locked) {
    constexpr int rounds = base::under_qemu ? 5 : 40;  // a fork of the emulator takes long
    const scratch_directory scratch;
    for (int round = 0; round < rounds; ++round) {
        const std::string path = scratch / ("heap" + std::to_string(round));
        const std::function<int()> come = [&] { return open_or_create_at(path, GetParam()); };
        const std::vector<int> answers = at_once({come, come, come});
        EXPECT_TRUE(std::find(answers.begin(), answers.end(), opened) != answers.end());
        for (const int answer : answers) {
            EXPECT_TRUE(answer == opened || answer == told_locked) << "reason " << answer - 100 << ", round " << round;
        }
        EXPECT_EQ(step_at(path), 0U);
    }
}

/// Was: the same, and a loser could remove what the winner had made.
TEST_P(races, with_removals_leave_a_heap_or_nothing) {
    constexpr int rounds = base::under_qemu ? 4 : 25;
    const scratch_directory scratch;
    const std::string path = scratch / "heap";
    for (int round = 0; round < rounds; ++round) {
        const std::function<int()> come = [&] { return open_or_create_at(path, GetParam()); };
        const std::function<int()> go = [&] {
            try {
                static_cast<void>(manager::remove(path));
                return opened;
            } catch (const error& what) {
                // It looked when there was nothing but the lock of one that comes.
                const bool known = what.reason() == errc::locked || what.reason() == errc::not_a_heap;
                return known ? told_locked : 100 + static_cast<int>(what.reason());
            }
        };
        for (const int answer : at_once({come, go, come, go})) {
            EXPECT_TRUE(answer == opened || answer == told_locked) << "reason " << answer - 100 << ", round " << round;
        }
        if (open_or_create_at(path, GetParam()) != opened) {
            ADD_FAILURE() << "what was left is no heap and no place for one, round " << round;
        }
        EXPECT_EQ(step_at(path), 0U);
    }
}

/// Was: who created a heap took the files of a copy for remains; the copy failed then, and removed those of the heap.
TEST_P(races, with_a_copy_find_the_place_taken) {
    constexpr int rounds = 50;
    constexpr std::uint64_t step = 7;
    const scratch_directory scratch;
    const std::string source = scratch / "source";
    make_heap(source, step, GetParam());
    bool met = false;
    for (int round = 0; round < rounds && !met; ++round) {
        const std::string path = scratch / ("copy" + std::to_string(round));
        const auto is_copied = [&path] { return std::filesystem::exists(path + "/superblock.new"); };
        base::child_process copier([&] { manager::copy(source, path); });
        ASSERT_TRUE(copier.runs_until(is_copied));
        copier.send(SIGSTOP);
        siginfo_t stopped{};
        ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(copier.id()), &stopped, WSTOPPED | WEXITED | WNOWAIT), 0);
        met = is_copied();
        if (met) {
            EXPECT_EQ(open_or_create_at(path, GetParam()), told_locked);
            EXPECT_THROW(static_cast<void>(manager::remove(path)), error);
        }
        copier.send(SIGCONT);
        EXPECT_TRUE(copier.wait().succeeded());
        EXPECT_EQ(step_at(path), step);
    }
    EXPECT_TRUE(met) << "all copies were too fast";
}

INSTANTIATE_TEST_SUITE_P(durabilities, races, testing::ValuesIn(durabilities),
                         [](const auto& named) { return name_of(named.param); });

}  // namespace
}  // namespace holdfast::attack
