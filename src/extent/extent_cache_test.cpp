#include "extent/extent_cache.hpp"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extent/extent_test_support.hpp"
#include "extent/fake_space.hpp"

namespace holdfast::extent {
namespace {

using base::pages;
using segment::extent_kind;
using testing::HasSubstr;
using testing::IsEmpty;

extent reserved(std::uint64_t start, std::uint64_t length) { return {{start}, {length}, extent_kind::reserved}; }

TEST(extent_batch_test, adjacent_extents_begin_where_others_end_and_are_free_one_by_one) {
    fake_space space;
    ASSERT_TRUE(space.grow({512}));
    extent_allocator extents(space.view(), space);
    ASSERT_TRUE(extents.format().ok());
    ASSERT_TRUE(extents.allocate({3}, {1}, extent_kind::used).ok());  // the next multiple is not where the free begin
    const pages free_before = extents.free_pages();
    const auto expect_sound = [&] {
        std::vector<std::string> problems;
        extents.check(problems);
        EXPECT_THAT(problems, IsEmpty());
    };
    std::array<pages, 2> pair{};
    std::set<std::uint64_t> starts;
    for (int i = 0; i < 40; ++i) {  // the space grows meanwhile
        ASSERT_TRUE(extents.allocate_adjacent({16}, {16}, pair).ok());
        EXPECT_EQ(pair[0].value % 16, 0U);
        EXPECT_EQ(pair[1], pair[0] + pages{16});
        for (const pages start : pair) {
            EXPECT_TRUE(starts.insert(start.value).second);
            EXPECT_TRUE(extents.is_reserved(start, {16}));
        }
    }
    expect_sound();
    EXPECT_GT(extents.frontier().value, 512U);
    // Every second one first: nothing can be united yet.
    for (const std::uint64_t odd : {16U, 0U}) {
        for (const std::uint64_t start : starts) {
            if (start % 32 == (pair[0].value + odd) % 32) {
                EXPECT_TRUE(extents.free({start}, extent_kind::reserved).ok());
            }
        }
        expect_sound();
    }
    EXPECT_EQ(extents.free_pages(), free_before + (extents.frontier() - pages{512}));
    EXPECT_EQ(extents.count(extent_kind::free), 1U);
}

TEST(extent_batch_test, adjacent_extents_that_do_not_fit_change_nothing) {
    fake_space space(16 * base::mebibyte, 2 * base::mebibyte);
    ASSERT_TRUE(space.grow({512}));
    extent_allocator extents(space.view(), space);
    ASSERT_TRUE(extents.format().ok());
    const pages free_before = extents.free_pages();
    std::array<pages, 32> many{};
    const auto refused = extents.allocate_adjacent({16}, {16}, many);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, base::failure_code::no_space);
    EXPECT_EQ(extents.free_pages(), free_before);
    EXPECT_EQ(extents.count(extent_kind::reserved), 0U);
    ASSERT_TRUE(extents.allocate_adjacent({16}, {16}, std::span(many).first(31)).ok());
    EXPECT_EQ(extents.free_pages(), pages{0});
}

class one_cache_test : public testing::Test {
protected:
    void SetUp() override { ASSERT_TRUE(cache_.reset().ok()); }
    void put(std::uint64_t start, std::uint64_t length) { ASSERT_TRUE(cache_.put(reserved(start, length))); }
    std::optional<extent> take(std::uint64_t wanted) { return cache_.take({wanted}, refill_); }

    extent_cache cache_;
    extent_cache::evicted_extents evicted_;
    std::size_t refill_ = 0;
};

TEST_F(one_cache_test, gives_the_shortest_up_to_an_eighth_more) {
    put(1000, 72);
    put(2000, 73);
    put(3000, 66);
    put(4000, 63);
    EXPECT_EQ(take(64), reserved(3000, 66));
    EXPECT_EQ(take(64), reserved(1000, 72));
    EXPECT_EQ(take(64), std::nullopt);
    EXPECT_EQ(take(65), reserved(2000, 73));
    EXPECT_EQ(take(7), std::nullopt);
    EXPECT_EQ(cache_.total(), pages{63});
    put(5000, 256);
    EXPECT_EQ(take(255), reserved(5000, 256));
    put(6000, 4);
    EXPECT_EQ(take(4), reserved(6000, 4));
}

TEST_F(one_cache_test, gives_the_youngest_first) {
    put(1000, 8);
    put(2000, 8);
    EXPECT_EQ(take(8), reserved(2000, 8));
    EXPECT_EQ(take(8), reserved(1000, 8));
}

TEST_F(one_cache_test, the_oldest_of_a_length_leave_where_there_are_too_many) {
    for (std::uint64_t i = 0; i < extent_cache::depth; ++i) {
        put(1000 + 10 * i, 8);
    }
    constexpr std::size_t leave = extent_cache::evicted_at_once;
    ASSERT_FALSE(cache_.put(reserved(9000, 8)));
    ASSERT_EQ(cache_.take_oldest({8}, evicted_), leave);
    ASSERT_TRUE(cache_.put(reserved(9000, 8)));
    EXPECT_EQ(evicted_[0], reserved(1000, 8));
    EXPECT_EQ(evicted_[leave - 1], reserved(1000 + 10 * (leave - 1), 8));
    EXPECT_TRUE(cache_.contains({1000 + 10 * leave}));
    EXPECT_TRUE(cache_.contains({9000}));
    EXPECT_FALSE(cache_.contains({1000 + 10 * (leave - 1)}));
    EXPECT_EQ(cache_.total(), pages{(extent_cache::depth - leave + 1) * 8});
}

TEST_F(one_cache_test, what_nobody_needed_for_a_period_is_idle) {
    std::array<extent, 64> out;
    for (std::uint64_t i = 0; i < 10; ++i) {
        put(1000 + 10 * i, 8);
    }
    EXPECT_EQ(cache_.take_idle(out), 0U);
    cache_.begin_period();
    EXPECT_EQ(take(8), reserved(1090, 8));
    EXPECT_EQ(take(8), reserved(1080, 8));
    put(1080, 8);
    ASSERT_EQ(cache_.take_idle(out), 8U);  // of ten, two were needed
    EXPECT_EQ(out[0], reserved(1000, 8));
    EXPECT_EQ(cache_.take_idle(out), 0U);
    EXPECT_EQ(cache_.total(), pages{8});
    ASSERT_EQ(cache_.take_any(out), 1U);
    EXPECT_EQ(out[0], reserved(1080, 8));
    EXPECT_EQ(cache_.take_any(out), 0U);
}

TEST_F(one_cache_test, fetches_more_of_a_length_that_is_missing_again) {
    for (const std::size_t expected : {1U, 2U, 4U, 8U, 16U, 16U}) {
        EXPECT_EQ(take(100), std::nullopt);
        EXPECT_EQ(refill_, expected);
    }
    EXPECT_EQ(take(99), std::nullopt);
    EXPECT_EQ(refill_, 1U);
}

class caches_test : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(space_.grow({64 * 512}).ok());
        ASSERT_TRUE(allocator_.format().ok());
        ASSERT_TRUE(caches_.start(2).ok());
    }
    std::vector<std::string> problems() const {
        std::vector<std::string> found;
        allocator_.check(found);
        caches_.check(found);
        return found;
    }

    fake_space space_{256 * base::mebibyte};
    extent_allocator allocator_{space_.view(), space_};
    extent_caches caches_{allocator_};
};

TEST_F(caches_test, what_is_cached_is_reserved_and_free_after_a_flush) {
    const auto block = caches_.take(0, {100});
    ASSERT_TRUE(block.has_value());
    allocator_.hand_out(block->start, block->length, 7);
    EXPECT_EQ(*allocator_.find(block->start), (segment::page_entry{extent_kind::used, {100}, 7}));
    const auto claimed = allocator_.claim(block->start, least_cached, most_cached);
    ASSERT_EQ(claimed, reserved(block->start.value, 100));
    EXPECT_FALSE(allocator_.claim(block->start, least_cached, most_cached).has_value());  // one gets it
    caches_.put(0, *claimed);
    EXPECT_EQ(allocator_.find(block->start)->kind, extent_kind::reserved);
    EXPECT_EQ(caches_.total(), pages{100});
    EXPECT_THAT(problems(), IsEmpty());
    EXPECT_EQ(caches_.take(0, {90}), claimed);
    caches_.put(1, *claimed);
    caches_.flush();
    EXPECT_EQ(caches_.total(), pages{});
    EXPECT_EQ(allocator_.count(extent_kind::reserved), 0U);
    EXPECT_EQ(allocator_.count(extent_kind::free), 1U);
    EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(caches_test, refills_lie_side_by_side_and_are_united_again) {
    std::vector<extent> taken;
    for (int i = 0; i < 100; ++i) {
        const auto one = caches_.take(0, {8});
        ASSERT_TRUE(one.has_value());
        if (!taken.empty()) {
            ASSERT_EQ(one->start, taken.back().start + pages{8});
        }
        taken.push_back(*one);
    }
    EXPECT_THAT(problems(), IsEmpty());
    for (const extent& one : taken) {
        caches_.put(1, one);
    }
    EXPECT_THAT(problems(), IsEmpty());
    caches_.flush();
    EXPECT_EQ(allocator_.count(extent_kind::free), 1U);
    EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(caches_test, idle_extents_of_all_arenas_decay_while_one_works) {
    test_time = decay_curve::step_ns;
    allocator_.space().set_decay(decay_curve::step_ns * 20, test_clock);
    const auto idle = caches_.take(1, {64});
    const auto busy = caches_.take(0, {32});
    caches_.put(1, *idle);
    caches_.put(0, *busy);
    EXPECT_EQ(caches_.total(), pages{96});
    for (int period = 0; period < 8; ++period) {
        test_time += decay_curve::step_ns;
        const auto again = caches_.take(0, {32});
        ASSERT_TRUE(again.has_value());
        caches_.put(0, *again);
        EXPECT_FALSE(caches_.age(test_time, 1)) << "little was to be done";
    }
    EXPECT_EQ(caches_.total(), pages{32});
    EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(caches_test, the_heap_grows_only_where_what_is_cached_has_no_room) {
    std::vector<extent> taken;
    const pages before = allocator_.frontier();
    while (allocator_.largest_free() >= pages{16}) {
        taken.push_back(*caches_.take(taken.size() % 2, {16}));
    }
    ASSERT_EQ(allocator_.frontier(), before);
    for (std::size_t i = 0; i < taken.size(); ++i) {
        caches_.put(i % 2, taken[i]);  // neighbours are in different arenas' caches
    }
    ASSERT_GT(caches_.total(), pages{1024});
    EXPECT_TRUE(caches_.take(0, {200}).has_value());
    EXPECT_TRUE(allocator_.allocate({1024}, {512}, extent_kind::used).ok());
    EXPECT_EQ(allocator_.frontier(), before);
    EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(caches_test, what_is_too_much_of_a_length_goes_back_to_the_index) {
    std::vector<extent> taken;
    for (std::size_t i = 0; i < extent_cache::depth + 100; ++i) {
        taken.push_back(*caches_.take(0, {8}));
    }
    for (const extent& one : taken) {
        caches_.put(0, one);
        ASSERT_LE(caches_.total(), pages{8 * extent_cache::depth});
    }
    EXPECT_GT(caches_.total(), pages{8 * (extent_cache::depth - extent_cache::evicted_at_once)});
    EXPECT_FALSE(caches_.contains(taken.front().start));
    EXPECT_TRUE(caches_.contains(taken.back().start));
    EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(caches_test, claims_what_is_used_and_of_a_length_that_is_cached_alone) {
    const auto start_of = [this](std::uint64_t length, extent_kind kind) {
        return allocator_.allocate({length}, {1}, kind).value();
    };
    const auto claim = [this](pages start) { return allocator_.claim(start, least_cached, most_cached).has_value(); };
    EXPECT_FALSE(claim(start_of(3, extent_kind::used)));
    EXPECT_FALSE(claim(start_of(257, extent_kind::used)));
    EXPECT_FALSE(claim(start_of(16, extent_kind::reserved)));
    EXPECT_FALSE(claim({0}));
    EXPECT_FALSE(claim(allocator_.frontier()));
    EXPECT_FALSE(claim({std::uint64_t{1} << 50}));
    const pages block = start_of(16, extent_kind::used);
    EXPECT_FALSE(claim(block + pages{1}));
    space_.view().page_entry_word(block) = segment::encode({extent_kind::used, {17}});  // damage
    EXPECT_FALSE(claim(block));
    space_.view().page_entry_word(block) = segment::encode({extent_kind::used, {16}});
    EXPECT_TRUE(claim(block));
}

TEST_F(caches_test, check_names_a_cached_extent_whose_page_entry_was_overwritten) {
    const auto one = caches_.take(0, {16});
    caches_.put(0, *one);
    space_.view().page_entry_word(one->start) = segment::encode({extent_kind::used, {16}});
    EXPECT_THAT(problems(), testing::Contains(HasSubstr("EXT-9")));
    caches_.flush();
    EXPECT_EQ(allocator_.find(one->start)->kind, extent_kind::used);
}

TEST_F(caches_test, a_full_disk_leaves_nothing_half_done) {
    std::vector<extent> taken;
    space_.set_capacity(64 * base::mebibyte);
    while (const auto one = caches_.take(0, {200})) {
        taken.push_back(*one);
    }
    EXPECT_GT(taken.size(), 100U);
    EXPECT_THAT(problems(), IsEmpty());
    for (const extent& one : taken) {
        caches_.put(0, one);
    }
    caches_.flush();
    EXPECT_EQ(allocator_.count(extent_kind::free), 1U);
    EXPECT_THAT(problems(), IsEmpty());
}

}  // namespace
}  // namespace holdfast::extent
