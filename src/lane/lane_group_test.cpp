// Groups without a heap: what replay makes of them, wherever a crash cuts them off.
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lane/lane_test_support.hpp"

namespace holdfast::lane {
namespace {

class lane_group_test : public lane_test {
protected:
    static constexpr std::uint64_t block = base::granule_size + 640;
    static constexpr std::uint64_t far_word = base::granule_size + 4096;

    void SetUp() override {
        ASSERT_TRUE(set_.open().ok());
        own_ = set_.acquire();
        ASSERT_NE(own_, nullptr);
    }
    [[nodiscard]] static record_on_media data(std::uint64_t offset, std::initializer_list<std::uint64_t> values) {
        record_on_media made{0, 0, 0, encode(data_place{offset, values.size(), 0}), 0, 0, 0, 0};
        std::memcpy(&made.allocated, std::data(values), values.size() * sizeof(std::uint64_t));
        return made;
    }
    [[nodiscard]] static record_on_media blocks(std::uint64_t allocated, std::uint64_t freed) {
        const std::uint64_t small = encode({block_kind::small, 64, 0});
        return {0, 0, 0, nowhere, allocated, allocated == nowhere ? 0 : small, freed, freed == nowhere ? 0 : small};
    }
    static std::uint64_t flags_of(const record_on_media& record) {
        return group_flag | (record.destination == nowhere ? 0 : data_flag);
    }
    /// Durable records of one group, whose call is in flight.
    void append_group(lane& own, std::vector<record_on_media> records) {
        set_.prepare(own, records.size());
        set_.announce(own);
        for (std::size_t i = 0; i < records.size(); ++i) {
            record_on_media& each = records[i];
            const bool is_last = i + 1 == records.size();
            if (is_last) {
                each.destination |= records.size() << group_count_shift;
            }
            set_.append(own, each, {}, flags_of(each) | (is_last ? last_flag : 0));
        }
        EXPECT_TRUE(set_.fence(own));
    }
    void carry_out_last(lane& own, std::uint64_t records) {
        const std::uint64_t end = own.sequence.load();
        for (std::uint64_t number = end - records + 1; number <= end; ++number) {
            set_.effects().carry_out(own.slots[number & own.slot_mask]);
        }
    }
    [[nodiscard]] std::uint64_t writes() { return make_replay(source()).value().report.replayed; }
    void expect_refused(record_on_media wrong, std::uint64_t flags, const std::string& what) {
        std::memset(own_->slots, 0, slots * sizeof wrong);
        set_.prepare(*own_, 1);
        set_.announce(*own_);
        set_.append(*own_, wrong, {}, flags);
        EXPECT_TRUE(set_.fence(*own_));
        set_.complete(*own_);
        const auto plan = make_replay(source());
        ASSERT_FALSE(plan.ok()) << what;
        EXPECT_EQ(plan.error().code, base::failure_code::corrupt) << what;
        EXPECT_THAT(plan.error().message(), testing::HasSubstr(what));
    }
    using lane_test::lane_test;

    lane_set<domain> set_{{}, space_, *this, options()};
    lane* own_ = nullptr;
};

TEST_F(lane_group_test, counts_with_all_of_its_records_or_not_at_all) {
    append_group(*own_, {blocks(block, nowhere), data(8, {1, 2, 3, 4}), data(far_word, {5})});
    for (const std::uint64_t missing : {1U, 2U, 3U}) {
        record_on_media& lost = own_->slots[missing];
        const record_on_media before = lost;
        lost = {};
        EXPECT_EQ(writes(), 0U) << "without record " << missing;
        lost = before;
        lost.allocated ^= 1U;  // torn
        EXPECT_EQ(writes(), 0U) << "with a part of record " << missing;
        lost = before;
    }
    replay();
    EXPECT_TRUE(is_live(block));
    for (std::uint64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(word(8 + 8 * i), i + 1);
    }
    EXPECT_EQ(word(40), 0U) << "behind the words";
    EXPECT_EQ(word(far_word), 5U);
}

TEST_F(lane_group_test, does_not_take_a_record_of_an_earlier_turn_of_the_ring_for_its_own) {
    std::vector<record_on_media> old(slots);
    for (std::uint64_t turn = 0; turn < 5 * slots; turn += 3) {
        if (turn > slots) {
            std::memcpy(old.data(), own_->slots, slots * sizeof(record_on_media));
        }
        const std::uint64_t first = own_->sequence.load() + 1;
        append_group(*own_, {data(8, {turn}), data(16, {turn}), data(24, {turn})});
        for (std::uint64_t number = first; turn > slots && number < first + 3; ++number) {
            record_on_media& slot = own_->slots[number & own_->slot_mask];
            const record_on_media written = slot;
            slot = old[number & own_->slot_mask];
            ASSERT_EQ(writes(), 0U) << number;
            slot = written;
        }
        ASSERT_EQ(writes(), turn == 0 ? 0U : 3U);
        carry_out_last(*own_, 3);
        set_.complete(*own_);
    }
}

TEST_F(lane_group_test, of_the_latest_time_decides_a_word_wherever_it_lies) {
    lane& other = *set_.acquire();
    append_group(other, {data(8, {1, 2})});
    set_.complete(other);
    append_group(*own_, {data(16, {30, 40})});
    set_.complete(*own_);
    append_group(other, {data(24, {500})});
    replay();
    EXPECT_EQ(word(8), 1U);
    EXPECT_EQ(word(16), 30U);
    EXPECT_EQ(word(24), 500U);
}

TEST_F(lane_group_test, stores_no_word_of_a_block_that_it_or_a_later_call_frees) {
    append_group(*own_, {data(block, {1}), data(far_word, {2})});
    set_.complete(*own_);
    append_group(*own_, {blocks(nowhere, block), data(block + 8, {3}), data(8, {4})});
    replay();
    EXPECT_EQ(word(block), 0U);
    EXPECT_EQ(word(block + 8), 0U);
    EXPECT_EQ(word(far_word), 2U);
    EXPECT_EQ(word(8), 4U);
}

TEST_F(lane_group_test, stores_into_a_block_that_it_allocates_after_an_earlier_call_freed_it) {
    append_group(*own_, {blocks(nowhere, block), data(8, {1})});
    set_.complete(*own_);
    append_group(*own_, {blocks(block, nowhere), data(block, {7})});
    replay();
    EXPECT_EQ(word(block), 7U);
    EXPECT_TRUE(is_live(block));
}

TEST_F(lane_group_test, makes_earlier_records_of_a_destination_obsolete) {
    append_only(set_, *own_, allocation(8, 1, block));
    set_.complete(*own_);
    append_group(*own_, {data(8, {segment::null_pointer(1)})});
    replay();
    EXPECT_EQ(word(8), segment::null_pointer(1)) << "the stamp alone would have stored the block's address";
}

TEST_F(lane_group_test, gives_way_to_a_later_record_of_a_destination) {
    append_group(*own_, {data(8, {segment::null_pointer(4)})});
    set_.complete(*own_);
    append_only(set_, *own_, allocation(8, 5, block));
    replay();
    EXPECT_EQ(word(8), segment::encode_pointer(8, block, 5));
}

// What lies on media may be what a former block left there.
TEST_F(lane_group_test, shows_that_a_stamp_on_media_came_about_by_chance) {
    const std::uint64_t of_former = segment::encode_pointer(block, far_word, 1);
    append_group(*own_, {blocks(block, nowhere), data(block, {segment::null_pointer(0), segment::null_pointer(0)})});
    set_.complete(*own_);
    append_only(set_, *own_, allocation(block, 1, block + 64));
    set_.complete(*own_);
    word(block) = of_former;
    word(block + 8) = of_former;
    replay();
    EXPECT_EQ(word(block), segment::encode_pointer(block, block + 64, 1));
    EXPECT_EQ(word(block + 8), segment::null_pointer(0));
}

TEST_F(lane_group_test, of_a_former_block_says_nothing_about_a_stamp) {
    append_group(*own_, {data(block, {segment::null_pointer(0)})});
    set_.complete(*own_);
    append_group(*own_, {blocks(nowhere, block), data(8, {1})});
    set_.complete(*own_);
    append_only(set_, *own_, allocation(block, 1, far_word));
    word(block) = segment::null_pointer(1);  // the next owner emptied it, and made that durable
    replay();
    EXPECT_EQ(word(block), segment::null_pointer(1));
}

TEST_F(lane_group_test, that_does_not_count_makes_its_time_obsolete) {
    append_group(*own_, {data(8, {1}), data(far_word, {2})});
    const record_on_media first = own_->slots[1];
    own_->slots[2] = {};
    const replay_source from = source();
    EXPECT_EQ(make_replay(from).value().newest_time, first.time);
    EXPECT_EQ(make_replay(from).value().report.pending, 0U);
}

TEST_F(lane_group_test, whose_thread_ended_before_its_last_record_is_undone) {
    set_.prepare(*own_, 2);
    set_.announce(*own_);
    record_on_media first = data(8, {1});
    set_.append(*own_, first, {}, flags_of(first));
    set_.release(*own_);
    EXPECT_EQ(word(8), 0U);
    EXPECT_EQ(writes(), 0U);
    lane& again = *set_.acquire();
    append_group(again, {data(16, {2})});
    replay();
    EXPECT_EQ(word(8), 0U);
    EXPECT_EQ(word(16), 2U);
}

TEST_F(lane_group_test, whose_thread_ended_behind_its_last_record_is_finished) {
    append_group(*own_, {blocks(block, nowhere), data(8, {1, 2}), data(far_word, {3})});
    set_.release(*own_);
    EXPECT_EQ(word(16), 2U);
    EXPECT_EQ(word(far_word), 3U);
    EXPECT_TRUE(is_live(block));
}

TEST_F(lane_group_test, that_says_what_cannot_be_is_an_error) {
    const std::uint64_t all = group_flag | data_flag | last_flag;
    const auto place = [](std::uint64_t offset, std::uint64_t words, std::uint64_t count) {
        return record_on_media{0, 0, 0, encode(data_place{offset, words, count}), 0, 0, 0, 0};
    };
    expect_refused(place(4, 1, 1), all, "data");
    expect_refused(place(user_bytes, 1, 1), all, "data");
    expect_refused(place(user_bytes - 8, 2, 1), all, "data");
    expect_refused(place(8, 5, 1), all, "data");
    expect_refused(place(8, 1, 0), all, "records of the group");
    expect_refused(place(8, 1, slots + 1), all, "records of the group");
    expect_refused(place(8, 1, 1), all & ~group_flag, "flags");
    expect_refused(place(8, 1, 1), all & ~data_flag, "flags");
    expect_refused(place(8, 1, 1), all | std::uint64_t{1} << 57U, "flags");
}

// LANE-41. A copy of a record would take the place of its neighbour's.
TEST_F(lane_group_test, two_records_of_a_log_have_different_numbers) {
    replay_source from = source();
    from.order = record_order::logged;
    std::vector<record_on_media> log;
    const auto put = [&](std::uint64_t number, record_on_media made) {
        made.destination |= std::uint64_t{1} << group_count_shift;
        made.sequence = number | group_flag | data_flag | last_flag;
        made.time = number + 1000;
        log.push_back(made);
        from.log = log;
    };
    put(1, data(8, {1}));
    put(2, data(16, {2}));
    ASSERT_TRUE(make_replay(from).ok());
    EXPECT_EQ(make_replay(from).value().report.pending, 2U);
    put(1, data(8, {1}));
    const auto plan = make_replay(from);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code, base::failure_code::corrupt);
    EXPECT_THAT(plan.error().message(), testing::HasSubstr("0x1, in two records"));
}

}  // namespace
}  // namespace holdfast::lane
