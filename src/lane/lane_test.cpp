// Lanes without a heap. The simulator (tests/simulator) tests crashes.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "lane/lane_test_support.hpp"

namespace holdfast::lane {
namespace {

using testing::HasSubstr;
TEST_F(lane_test, one_record_is_one_line_and_its_place_follows_its_sequence) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    lane& own = *set.acquire();
    for (std::uint64_t i = 1; i <= 48; ++i) {
        call(set, own, allocation(8, static_cast<std::uint16_t>(i), base::granule_size));
        EXPECT_EQ(own.slots[i % slots].sequence, i);
        EXPECT_TRUE(is_whole(own.slots[i % slots], own.seed, i % slots, slots));
    }
    EXPECT_EQ(set.statistics().records, 48U);
    EXPECT_EQ(set.statistics().checkpoints, 1U) << "begun at half of the ring";
}

TEST_F(lane_test, a_checkpoint_is_spread_over_the_calls_that_follow) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    lane& own = *set.acquire();
    std::uint64_t before = 0;
    for (std::uint64_t i = 0; i < 10 * slots; ++i) {
        call(set, own, allocation(64 * (i % 512), static_cast<std::uint16_t>(i + 1), base::granule_size));
        const std::uint64_t lines = set.statistics().flushed_lines;
        EXPECT_LE(lines - before, 3U) << "one line a record, and a sixteenth of half a ring a call: call " << i;
        EXPECT_TRUE(i != slots / 2 || lines != 0) << "begun at half of the ring";
        before = lines;
    }
    EXPECT_EQ(set.statistics().waits, 0U);
    EXPECT_GE(set.statistics().checkpoints, 10 * slots / (slots - 1)) << "no ring was full";
    EXPECT_LE(set.statistics().checkpoints, 10 * slots / (slots / 2));
}

TEST_F(lane_test, a_checkpoint_of_calls_with_several_records_ends_before_the_ring_is_full) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    lane& own = *set.acquire();
    constexpr std::uint64_t of_call = 4;
    constexpr std::uint64_t calls = 20 * slots / of_call;
    for (std::uint64_t i = 0; i < calls; ++i) {
        set.prepare(own, of_call);
        set.announce(own);
        for (std::uint64_t line = i * of_call; line < (i + 1) * of_call; ++line) {
            record_on_media record =
                allocation(64 * (line % 512), static_cast<std::uint16_t>(i + 1), base::granule_size);
            set.append(own, record, {&word(destination_offset(record.destination)), nullptr, nullptr});
        }
        EXPECT_TRUE(set.fence(own));
        set.complete(own);
    }
    EXPECT_GE(set.statistics().checkpoints, 20U);
    EXPECT_LE(set.statistics().flushed_lines, calls * of_call)
        << "a full ring drops the checkpoint, and writes lines back twice";
}

TEST_F(lane_test, what_begins_after_half_a_checkpoint_is_obsolete_after_a_whole_one) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    lane& own = *set.acquire();
    for (std::uint64_t i = 0; i < slots / 2 + 4; ++i) {
        call(set, own, allocation(64 * i, 1, base::granule_size));
    }
    EXPECT_EQ(set.statistics().checkpoints, 0U) << "one runs";
    EXPECT_GT(set.statistics().flushed_lines, 0U);
    EXPECT_EQ(make_replay(source()).value().report.pending, slots / 2 + 4) << "T has not moved";
    EXPECT_TRUE(set.checkpoint());
    EXPECT_EQ(make_replay(source()).value().report.pending, 0U);
    EXPECT_EQ(set.statistics().checkpoints, 1U) << "the one that ran was dropped";
}

TEST_F(lane_test, a_lane_takes_the_place_of_another_that_does_not_go_on_with_its_checkpoint) {
    lane_options alone = options();
    alone.lanes_for_ahead = maximum_lanes + 1;
    lane_set<domain> set({}, space_, *this, alone);
    ASSERT_TRUE(set.open().ok());
    lane& sleeper = *set.acquire();
    lane& busy = *set.acquire();
    for (std::uint64_t i = 0; i < slots / 2 + 1; ++i) {
        call(set, sleeper, allocation(64 * i, 1, base::granule_size));
    }
    const std::uint64_t begun = set.statistics().flushed_lines;
    EXPECT_GT(begun, 0U);
    for (std::uint64_t i = 0; i < slots - 5; ++i) {
        call(set, busy, allocation(64 * i, 2, base::granule_size));
    }
    EXPECT_EQ(set.statistics().flushed_lines, begun) << "it is the sleeper's";
    for (std::uint64_t i = 0; i < 4 * slots; ++i) {
        call(set, busy, allocation(64 * (i % 512), static_cast<std::uint16_t>(i + 3), base::granule_size));
    }
    EXPECT_GT(set.statistics().checkpoints, 3U);
    EXPECT_EQ(set.statistics().waits, 0U);
}

TEST_F(lane_test, the_checkpoint_of_a_thread_that_moves_to_another_node_is_dropped) {
    lane_options wanted = options();
    wanted.files = wanted.machine_nodes = 2;
    wanted.lanes_for_ahead = maximum_lanes + 1;
    lane_set<domain> set({}, space_, *this, wanted);
    ASSERT_TRUE(set.open().ok());
    lane& left = *set.acquire(0);
    lane& busy = *set.acquire(1);
    for (std::uint64_t i = 0; i < slots / 2 + 1; ++i) {
        call(set, left, allocation(64 * i, 1, base::granule_size));
    }
    const std::uint64_t begun = set.statistics().flushed_lines;
    ASSERT_GT(begun, 0U);
    ASSERT_NE(set.move(left, 1), &left);
    for (std::uint64_t i = 0; i < slots / 2 + 1; ++i) {
        call(set, busy, allocation(64 * i, 2, base::granule_size));
    }
    EXPECT_GT(set.statistics().flushed_lines, begun) << "no other thread's fence waits for these lines";
}

TEST_F(lane_test, the_checkpoint_of_a_thread_that_ended_is_dropped) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    lane& ended = *set.acquire();
    lane& busy = *set.acquire();
    for (std::uint64_t i = 0; i < slots / 2 + 1; ++i) {
        call(set, ended, allocation(64 * i, 1, base::granule_size));
    }
    const std::uint64_t begun = set.statistics().flushed_lines;
    set.release(ended);
    for (std::uint64_t i = 0; i < slots / 2 + 1; ++i) {
        call(set, busy, allocation(64 * i, 2, base::granule_size));
    }
    EXPECT_GT(set.statistics().flushed_lines, begun) << "begun anew, and not late";
}

TEST_F(lane_test, a_checkpoint_makes_records_obsolete_and_a_call_in_flight_holds_it_up) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    lane& sleeper = *set.acquire();
    lane& busy = *set.acquire();
    call(set, sleeper, allocation(8, 1, base::granule_size));
    append_only(set, sleeper, allocation(8, 2, base::granule_size + 64));
    call(set, busy, allocation(16, 1, base::granule_size + 128));
    EXPECT_EQ(make_replay(source()).value().report.pending, 3U);
    set.checkpoint();
    EXPECT_EQ(make_replay(source()).value().report.pending, 2U) << "what is not older than the call in flight";
    set.complete(sleeper);
    EXPECT_TRUE(set.checkpoint());
    EXPECT_EQ(make_replay(source()).value().report.pending, 0U);
    EXPECT_FALSE(set.checkpoint()) << "nothing to do";
}

TEST_F(lane_test, a_full_ring_waits_for_the_thread_that_sleeps_in_a_call) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    lane& sleeper = *set.acquire();
    append_only(set, sleeper, allocation(8, 1, base::granule_size));
    std::atomic<std::uint64_t> calls{0};
    std::thread other([&] {
        lane& busy = *set.acquire();
        for (std::uint64_t i = 0; i < 4 * slots; ++i) {
            call(set, busy, allocation(16, static_cast<std::uint16_t>(i + 1), base::granule_size + 64));
            calls.store(i + 1);
        }
        set.release(busy);
    });
    while (set.statistics().waits == 0) {
        std::this_thread::yield();
    }
    EXPECT_EQ(calls.load(), slots - 1) << "LANE-20";
    set.complete(sleeper);
    other.join();
    EXPECT_EQ(calls.load(), 4 * slots);
    EXPECT_GT(set.statistics().waits, 0U);
}

TEST_F(lane_test, a_call_whose_thread_ended_is_finished_by_whoever_takes_its_lane_back) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    lane& own = *set.acquire();
    append_only(set, own, allocation(8, 1, base::granule_size + 64));
    EXPECT_FALSE(is_live(base::granule_size + 64));
    set.release(own);
    EXPECT_TRUE(is_live(base::granule_size + 64));
    EXPECT_EQ(segment::decode_pointer(8, word(8)), base::granule_size + 64);
    EXPECT_EQ(set.acquire(), &own) << "and serves another thread";
    EXPECT_TRUE(set.checkpoint()) << "nothing is in flight";
}

TEST_F(lane_test, replay_does_what_the_last_record_says_wherever_it_lies) {
    {
        lane_set<domain> set({}, space_, *this, options());
        ASSERT_TRUE(set.open().ok());
        lane& a = *set.acquire();
        lane& b = *set.acquire();
        append_only(set, b, allocation(8, 1, base::granule_size));
        set.complete(b);
        append_only(set, a, allocation(8, 2, base::granule_size + 64));
        set.complete(a);
        record_on_media free = allocation(8, 3, nowhere);
        free.allocated_block = 0;
        free.freed = base::granule_size + 64;
        free.freed_block = encode({block_kind::small, 64, 0});
        append_only(set, b, free);
        set.complete(b);
        append_only(set, a, allocation(16, 1, base::granule_size + 128));
    }
    replay();
    EXPECT_TRUE(is_live(base::granule_size)) << "nobody freed it";
    EXPECT_FALSE(is_live(base::granule_size + 64));
    EXPECT_EQ(word(8), segment::null_pointer(3));
    EXPECT_EQ(word(16), segment::encode_pointer(16, base::granule_size + 128, 1));
    const auto again = make_replay(source());
    EXPECT_EQ(again.value().report.pending, 0U) << "T is the newest time now";
}

TEST_F(lane_test, records_of_another_incarnation_lane_or_heap_are_obsolete) {
    {
        lane_set<domain> set({}, space_, *this, options());
        ASSERT_TRUE(set.open().ok());
        append_only(set, *set.acquire(), allocation(8, 1, base::granule_size));
    }
    EXPECT_EQ(make_replay(source()).value().report.pending, 1U);
    EXPECT_EQ(make_replay(source(2)).value().report.pending, 0U) << "another incarnation";
    std::memcpy(lanes() + lanes_at, lanes() + lanes_at + lane_size(slots), lane_size(slots));
    EXPECT_EQ(make_replay(source()).value().report.pending, 1U) << "another lane";
    replay_source other = source();
    other.heap_key = key + 1;
    head() = new_head({0, {}}, 2, key + 1);
    EXPECT_EQ(make_replay(other).value().report.pending, 0U) << "another heap";
}

TEST_F(lane_test, a_torn_record_is_rolled_back) {
    {
        lane_set<domain> set({}, space_, *this, options());
        ASSERT_TRUE(set.open().ok());
        lane& own = *set.acquire();
        call(set, own, allocation(8, 1, base::granule_size));
        append_only(set, own, allocation(8, 2, base::granule_size + 64));
        own.slots[2].allocated ^= 64U;
    }
    const auto plan = make_replay(source());
    EXPECT_EQ(plan.value().report.pending, 1U);
    EXPECT_EQ(plan.value().report.rolled_back, 1U);
}

TEST_F(lane_test, a_damaged_time_leaves_the_other_copy_and_two_are_an_error) {
    {
        lane_set<domain> set({}, space_, *this, options());
        ASSERT_TRUE(set.open().ok());
        lane& own = *set.acquire();
        for (int i = 1; i <= 2; ++i) {
            call(set, own, allocation(8, static_cast<std::uint16_t>(i), base::granule_size));
            set.checkpoint();
        }
    }
    auto& copies = head().checkpoints;
    const std::uint64_t newest = make_replay(source()).value().checkpoint.time;
    const std::size_t in_force = copy_in_force(copies, key);
    copies[in_force].value.time ^= 1U;
    const auto older = make_replay(source());
    EXPECT_LT(older.value().checkpoint.time, newest);
    EXPECT_EQ(older.value().report.pending, 1U);
    copies[1 - in_force].seal ^= 1U;
    const auto neither = make_replay(source());
    ASSERT_FALSE(neither.ok());
    EXPECT_EQ(neither.error().code, base::failure_code::corrupt);
    EXPECT_THAT(neither.error().message(), HasSubstr("time of the last checkpoint"));
}

TEST_F(lane_test, the_number_of_lanes_is_sealed_before_one_is_used_and_a_file_that_lacks_one_is_refused) {
    lane_set<domain> set({}, space_, *this, options());
    ASSERT_TRUE(set.open().ok());
    for (std::uint64_t count = 1; count <= 8; ++count) {
        EXPECT_EQ(read_lane_count({lanes(), size_}, size_, slots, record_order::clock, key).value(), count);
        EXPECT_EQ(make_replay(source()).value().report.lanes, count);
        ASSERT_EQ(size_, lanes_file_size(count, slots));
        for (const std::uint64_t missing : {lane_size(slots), base::page_size}) {
            size_ -= missing;
            expect_corrupt("size of the lanes", fmt::format("{}", size_),
                           fmt::format("at least {}, for {} lanes", size_ + missing, count));
            size_ += missing;
        }
        ASSERT_EQ(set.acquire() != nullptr, count < 8);
    }
    EXPECT_EQ(read_lane_count({lanes(), size_}, size_, slots, record_order::clock, key).value(), 8U)
        << "no place for a ninth";
    size_ = 0;
    expect_corrupt("size of the lanes", "0", "at least 4096");
}

TEST_F(lane_test, a_zeroed_file_is_refused_and_so_is_a_head_of_another_heap) {
    {
        lane_set<domain> set({}, space_, *this, options());
        ASSERT_TRUE(set.open().ok());
        call(set, *set.acquire(), allocation(8, 1, base::granule_size));
    }
    const lanes_head_on_media whole = head();
    ASSERT_TRUE(make_replay(source()).ok());
    head() = {};
    expect_corrupt("time of the last checkpoint", "no copy whose seal fits", "at least one");
    head() = new_head({0, {}}, 2, key + 1);
    expect_corrupt("time of the last checkpoint", "no copy whose seal fits", "at least one");
    head() = whole;
    head().checkpoints[0].seal = head().lane_counts[0].seal;
    expect_corrupt("time of the last checkpoint", "no copy whose seal fits", "at least one");
    std::memset(lanes(), 0, size_);
    expect_corrupt("time of the last checkpoint", "no copy whose seal fits", "at least one");
}

TEST_F(lane_test, a_damaged_number_of_lanes_leaves_the_other_copy_and_no_lane_is_left_out) {
    {
        lane_set<domain> set({}, space_, *this, options());
        ASSERT_TRUE(set.open().ok());
        for (std::uint16_t i = 1; i <= 3; ++i) {
            append_only(set, *set.acquire(), allocation(8U * i, 1, base::granule_size + 64U * i));
        }
    }
    auto& copies = head().lane_counts;
    const std::size_t in_force = copy_in_force(copies, key);
    EXPECT_EQ(copies[in_force].value, 4U);
    EXPECT_EQ(copies[1 - in_force].value, 3U);
    copies[in_force].seal ^= 1U;
    EXPECT_EQ(make_replay(source()).value().report.pending, 3U) << "the file has the lane, so it counts";
    copies[1 - in_force].seal ^= 1U;
    expect_corrupt("number of lanes", "no copy whose seal fits", "at least one");
    for (const std::uint64_t wrong : {std::uint64_t{0}, maximum_lanes + 1, ~std::uint64_t{0}}) {
        head().lane_counts[0] = sealed(wrong, key);
        expect_corrupt("number of lanes", fmt::format("{}", wrong), "1 to 1024");
    }
}

TEST_F(lane_test, the_next_opening_keeps_what_is_sealed_and_one_of_a_clean_heap_begins_anew) {
    {
        lane_set<domain> set({}, space_, *this, options());
        ASSERT_TRUE(set.open().ok());
        lane& own = *set.acquire();
        call(set, own, allocation(8, 1, base::granule_size));
        set.checkpoint();
    }
    lane_options again = options();
    again.incarnation = 2;
    again.checkpoint_time = read_checkpoint({lanes(), size_}, key).value().time;
    again.lane_count = 2;
    const lanes_head_on_media before = head();
    {
        lane_set<domain> set({}, space_, *this, again);
        ASSERT_TRUE(set.open().ok());
        ASSERT_NE(set.acquire(), nullptr);
        EXPECT_EQ(std::memcmp(&before, &head(), sizeof before), 0) << "lane 1 has its number already";
        ASSERT_NE(set.acquire(), nullptr);
    }
    EXPECT_EQ(read_lane_count({lanes(), size_}, size_, slots, record_order::clock, key).value(), 3U);
    std::memset(lanes(), 0xa5, lanes_at);  // means nothing in a clean heap
    again.lane_count.reset();
    lane_set<domain> set({}, space_, *this, again);
    ASSERT_TRUE(set.open().ok());
    EXPECT_EQ(read_checkpoint({lanes(), size_}, key).value().time, again.checkpoint_time);
    EXPECT_EQ(read_lane_count({lanes(), size_}, size_, slots, record_order::clock, key).value(), 1U);
}

TEST_F(lane_test, a_whole_record_that_says_what_cannot_be_is_an_error_and_writes_nothing) {
    const record_on_media wrong[] = {
        allocation(4, 1, base::granule_size),           // a destination that is not aligned
        allocation(user_bytes, 1, base::granule_size),  // beyond the frontier
        allocation(8, 1, user_bytes),                   // a block beyond the frontier
        allocation(8, 1, base::granule_size + 8),       // not at a multiple of its size
        allocation(8, 1, 64),                           // among the roots
        {0, 0, 0, nowhere, base::granule_size, encode({block_kind::small, 0, 0}), nowhere, 0},
        {0, 0, 0, nowhere, base::granule_size, encode({block_kind::pages, 1U << 30U, 0}), nowhere, 0},
        {0, 0, 0, nowhere, base::granule_size + 8, encode({block_kind::pages, 1, 0}), nowhere, 0},
        {0, 0, 0, nowhere, base::granule_size + 4096, encode({block_kind::slab, 64, 0}), nowhere, 0},
        {0, 0, 0, nowhere, nowhere, 0, base::granule_size, encode({static_cast<block_kind>(9), 64, 0})},
    };
    for (const record_on_media& each : wrong) {
        std::memset(lanes(), 0, size_);
        lane_set<domain> set({}, space_, *this, options());
        ASSERT_TRUE(set.open().ok());
        lane& own = *set.acquire();
        record_on_media record = each;
        set.prepare(own, 1);
        set.announce(own);
        set.append(own, record, {});
        EXPECT_TRUE(set.fence(own));
        const auto plan = make_replay(source());
        ASSERT_FALSE(plan.ok()) << &each - wrong;
        EXPECT_EQ(plan.error().code, base::failure_code::corrupt);
        EXPECT_THAT(plan.error().message(), HasSubstr("lane 1, record in slot 1"));
    }
}

TEST_F(lane_test, a_number_near_the_end_of_its_range_is_refused_for_those_after_it_would_come_round) {
    const std::uint64_t limit = std::uint64_t{1} << 63U;
    ASSERT_TRUE(grow_lanes(lanes_file_size(1, slots)).ok());
    auto& record = *reinterpret_cast<record_on_media*>(lanes() + lanes_at + lane_header_size);
    auto& completed = reinterpret_cast<lane_header_on_media*>(lanes() + lanes_at)->completed;
    const auto put = [&](std::uint64_t time, std::uint64_t sequence) {
        head() = new_head({0, {}}, 1, key);
        record = allocation(8, 1, base::granule_size);
        record.time = time;
        record.sequence = sequence;
        record.checksum = checksum_of(record, seed_of(key, 1, 0));
    };
    put(limit, largest_sequence);
    EXPECT_EQ(make_replay(source()).value().report.pending, 1U);
    put(limit + 1, slots);
    expect_corrupt("lane 0, record in slot 0", "time 0x8000000000000001, sequence 0x40",
                   "at most 0x8000000000000000 and 0x80000000000000");
    put(1, largest_sequence + slots);
    expect_corrupt("lane 0, record in slot 0", "time 0x1, sequence 0x80000000000040",
                   "at most 0x8000000000000000 and 0x80000000000000");
    head() = new_head({limit + 1, {}}, 1, key);
    expect_corrupt("time of the last checkpoint", "0x8000000000000001", "at most 0x8000000000000000");
    put(1, slots);
    completed = limit + 1;
    replay_source in_flight = source();
    in_flight.order = record_order::in_flight;
    const auto plan = make_replay(in_flight);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().field, "lane 0, completed records");
    // The file of a clean heap means nothing: its content is no error, and no number continues from it.
    lane_options fresh = options();
    fresh.order = record_order::in_flight;
    lane_set<persist::page_cache_domain> set({}, space_, *this, fresh);
    ASSERT_TRUE(set.open().ok());
    EXPECT_EQ(completed, 0U);
    EXPECT_EQ(set.shared().sequence.load(), 0U);
}

TEST_F(lane_test, replay_survives_arbitrary_records_with_right_checksums) {
    std::mt19937_64 random(20'261'121);
    ASSERT_TRUE(grow_lanes(lanes_file_size(3, slots)).ok());
    const auto some_offset = [&random] {
        return random() % 4 == 0 ? nowhere : (random() % (user_bytes / 8 + 2)) * (random() % 2 == 0 ? 8 : 64);
    };
    const auto some_block = [&random] {
        return encode({static_cast<block_kind>(random() % 5), random() % 2 == 0 ? 64 : random() % 40, 0});
    };
    int replayed = 0;
    for (int round = 0; round < 2000; ++round) {
        for (std::uint64_t lane = 0; lane < 3; ++lane) {
            auto* const records =
                reinterpret_cast<record_on_media*>(lanes() + lanes_at + lane * lane_size(slots) + lane_header_size);
            for (std::uint64_t slot = 0; slot < slots; ++slot) {
                record_on_media& made = records[slot];
                made = {0,
                        slot == 0 ? slots : slot,
                        random() % 50,
                        some_offset(),
                        some_offset(),
                        some_block(),
                        some_offset(),
                        some_block()};
                made.checksum = random() % 8 == 0 ? random() : checksum_of(made, seed_of(key, 1, lane));
                // Half of the rounds have possible records, so that replay gets past the first one.
                if (round % 2 == 0) {
                    const std::uint64_t block = base::granule_size + random() % 1024 * 64;
                    made = allocation(random() % 64 * 8, static_cast<std::uint16_t>(random()), block);
                    made.sequence = slot == 0 ? slots : slot;
                    made.time = 1 + random() % 50;
                    if (random() % 2 == 0) {
                        std::swap(made.allocated, made.freed);
                        std::swap(made.allocated_block, made.freed_block);
                    }
                    made.checksum = checksum_of(made, seed_of(key, 1, lane));
                }
            }
        }
        head() = new_head({0, {}}, 3, key);
        const replay_source from = source();
        const auto plan = make_replay(from);
        if (plan) {
            domain to;
            apply(plan.value(), from, to);
            EXPECT_EQ(make_replay(from).value().report.pending, 0U);
            ++replayed;
        } else {
            EXPECT_EQ(plan.error().code, base::failure_code::corrupt);
        }
    }
    EXPECT_GE(replayed, 1000);
}

}  // namespace
}  // namespace holdfast::lane
