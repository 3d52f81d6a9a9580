// Lanes whose owners write back their lines, so that checkpoints of many threads do not depend on one.
#include <array>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "lane/lane_test_support.hpp"

namespace holdfast::lane {
namespace {

class lane_ahead_test : public lane_test {
protected:
    /// Each call on a line of its own; lanes do not share one.
    void call_on(lane_set<domain>& set, lane& own, std::uint64_t number) {
        const std::uint64_t place = 4096 * own.index + 64 * (number % 64);
        call(set, own, allocation(place, static_cast<std::uint16_t>(number + 1), base::granule_size));
    }
};

TEST_F(lane_ahead_test, lanes_in_step_leave_nothing_for_checkpoints_to_write_back) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    std::vector<lane*> lanes;
    for (int i = 0; i < 7; ++i) {
        lanes.push_back(set.acquire());
    }
    constexpr std::uint64_t calls = 40 * slots;
    std::uint64_t turn = 0;
    for (std::uint64_t i = 0; i < calls; ++i) {
        for (lane* const each : lanes) {
            // They do not begin together, so that their windows do not.
            if (i >= 5 * each->index) {
                call_on(set, *each, i);
                ++turn;
            }
        }
    }
    const lane_statistics found = set.statistics();
    EXPECT_EQ(found.helped, 0U);
    EXPECT_EQ(found.waits, 0U);
    EXPECT_EQ(found.reflushes, 0U);
    EXPECT_LE(found.flushed_lines, turn) << "a line a record";
    EXPECT_GE(found.flushed_lines, turn - lanes.size() * slots);
    EXPECT_GE(found.checkpoints, calls / slots);
    EXPECT_LE(found.checkpoints, calls / (slots / 4)) << "one voids a quarter of each ring at least";
}

TEST_F(lane_ahead_test, a_lane_that_lags_is_helped_and_holds_nobody_up) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    lane& slow = *set.acquire();
    lane& idle = *set.acquire();
    lane& busy = *set.acquire();
    for (std::uint64_t i = 0; i < slots / 4 - 1; ++i) {
        call_on(set, idle, i);
    }
    for (std::uint64_t i = 0; i < 40 * slots; ++i) {
        call_on(set, busy, i);
        if (i % 50 == 0) {
            call_on(set, slow, i);
        }
    }
    const lane_statistics found = set.statistics();
    EXPECT_EQ(found.waits, 0U);
    EXPECT_GE(found.helped, slots / 4 - 1);
    EXPECT_LE(found.helped, slots / 4 - 1 + 40 * slots / 50 + 1) << "what the slow ones have written, and no more";
    EXPECT_LE(make_replay(source()).value().report.pending, 2 * slots);
    EXPECT_TRUE(set.checkpoint());
    EXPECT_EQ(make_replay(source()).value().report.pending, 0U);
}

TEST_F(lane_ahead_test, a_window_ends_with_its_thread_whose_lines_no_other_fence_waits_for) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    lane& other = *set.acquire();
    lane& own = *set.acquire();
    // The first quarter is complete, and a step or two of its window are done.
    for (std::uint64_t i = 0; i < slots / 4 + 2; ++i) {
        call_on(set, own, i);
    }
    ASSERT_GT(own.ahead->next, 0U);
    set.release(own);
    ASSERT_EQ(set.acquire(), &own);
    call_on(set, own, slots);
    EXPECT_EQ(own.ahead->durable.load(), 0U) << "begun anew";
    EXPECT_EQ(other.ahead->durable.load(), 0U);
    for (std::uint64_t i = 0; i < slots / 4; ++i) {
        call_on(set, own, i);
    }
    EXPECT_GE(own.ahead->durable.load(), slots / 4);
}

TEST_F(lane_ahead_test, what_is_obsolete_is_not_written_back_any_more) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    static_cast<void>(set.acquire());
    lane& own = *set.acquire();
    for (std::uint64_t i = 0; i < slots / 4 + 2; ++i) {
        call_on(set, own, i);
    }
    ASSERT_LT(own.ahead->next, own.ahead->until) << "within a window";
    ASSERT_TRUE(set.wait_until_obsolete());
    const std::uint64_t lines = set.statistics().flushed_lines;
    for (std::uint64_t i = 0; i < slots / 4 - 1; ++i) {
        call_on(set, own, i);
    }
    EXPECT_EQ(set.statistics().flushed_lines, lines) << "its memory may be gone";
}

TEST_F(lane_ahead_test, memory_is_not_given_back_while_a_step_may_still_write_to_it) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    static_cast<void>(set.acquire());
    lane& own = *set.acquire();
    call_on(set, own, 0);
    own.ahead->steps.store(1);  // its thread sleeps, or has ended
    EXPECT_FALSE(set.wait_until_obsolete());
    EXPECT_EQ(make_replay(source()).value().report.pending, 0U) << "the records are void";
    set.release(own);
    EXPECT_TRUE(set.wait_until_obsolete());
}

TEST_F(lane_ahead_test, threads_write_back_and_settle_at_once) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    constexpr unsigned threads = 3;
    std::vector<std::thread> all;
    for (unsigned i = 0; i < threads; ++i) {
        all.emplace_back([&] {
            lane& own = *set.acquire();
            for (std::uint64_t call = 0; call < 200 * slots; ++call) {
                call_on(set, own, call);
            }
            set.release(own);
        });
    }
    for (int i = 0; i < 50; ++i) {
        static_cast<void>(set.wait_until_obsolete());  // false while a thread that writes back waits for a core
    }
    for (std::thread& each : all) {
        each.join();
    }
    EXPECT_TRUE(set.wait_until_obsolete());
    EXPECT_EQ(make_replay(source()).value().report.pending, 0U);
}

}  // namespace
}  // namespace holdfast::lane
