#include "extent/extent_places.hpp"

#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extent/extent_checker.hpp"
#include "extent/fake_space.hpp"

namespace holdfast::extent {
namespace {

using base::failure_code;
using base::pages;
using segment::extent_kind;
using testing::ElementsAre;
using testing::IsEmpty;

/// A new heap of 512 pages, which grows by 512 at a time.
class extent_places_test : public testing::Test {
protected:
    extent_places_test() {
        EXPECT_TRUE(space_.grow({512}).ok());
        EXPECT_TRUE(map_.reset().ok());
        map_.format(space_.frontier(), space_.frontier() - pages{16});
    }
    ~extent_places_test() override {
        std::vector<std::string> problems;
        extent_checker(map_).check(problems);
        EXPECT_THAT(problems, IsEmpty());
    }
    extent_places_test(const extent_places_test&) = delete;
    extent_places_test& operator=(const extent_places_test&) = delete;

    base::result<pages> take(pages length, pages alignment = {1}) {
        HF_TRY_ASSIGN(const auto place, places_.find(length, alignment, any_node));
        return places_.take(place, alignment, {extent_kind::used, length});
    }
    void give_back(pages start, pages length) {
        ASSERT_TRUE(space_.give_back(start, length).ok());
        map_.backing().set_hole(start, length);
        map_.index().remove_backed(start, length);
    }

    fake_space space_{64 * base::mebibyte};
    extent_map map_{space_.view()};
    disk_space disk_{map_, space_};
    heap_end end_{map_, space_};
    extent_places places_{map_, disk_, end_};
};

TEST_F(extent_places_test, the_heap_grows_only_where_nothing_fits) {
    const pages before = space_.frontier();
    EXPECT_EQ(take({100})->value, 16U);
    EXPECT_EQ(space_.frontier(), before);
    EXPECT_FALSE(places_.find_present(before, {1}, any_node));
    EXPECT_EQ(take(before)->value, 116U) << "the free extent at the end counts";
    EXPECT_GT(space_.frontier(), before);
    EXPECT_EQ(take(map_.entries().reserved()).error().code, failure_code::limit);
}

TEST_F(extent_places_test, a_place_without_space_on_disk_gets_it) {
    give_back({16}, space_.frontier() - pages{16});
    ASSERT_FALSE(space_.is_backed({16}));
    ASSERT_TRUE(take({10}).ok());
    EXPECT_TRUE(space_.is_backed({16}));
    EXPECT_TRUE(space_.is_backed({25}));
}

TEST_F(extent_places_test, where_the_disk_is_full_a_backed_place_is_taken_instead) {
    space_.give_back_at_once(false);  // so no other free extent can make room
    const pages small = take({10}).value();
    ASSERT_TRUE(take({1}).ok());
    const pages large = take({40}).value();
    ASSERT_TRUE(take({1}).ok());
    for (const auto& [start, length] : {std::pair(small, pages{10}), std::pair(large, pages{40})}) {
        ASSERT_TRUE(map_.withdraw(start, extent_kind::used).ok());
        map_.backing().set_backed(start, length);
        map_.unite({start, length, length});
    }
    give_back(small, {10});
    space_.set_disk(space_.on_disk());
    const pages taken = take({10}).value();
    EXPECT_NE(taken, small);
    EXPECT_TRUE(space_.is_backed(taken));
}

TEST_F(extent_places_test, where_the_disk_is_full_free_extents_make_room) {
    const pages last = take({100}).value();
    ASSERT_TRUE(map_.withdraw(last, extent_kind::used).ok());
    map_.unite({last, {100}, {100}});
    space_.set_disk(space_.on_disk());
    EXPECT_TRUE(disk_.make_space({1}, {}));
    EXPECT_EQ(map_.free().backed().value, 0U);
    EXPECT_FALSE(disk_.make_space({1}, {})) << "nothing is left to give back";
}

TEST_F(extent_places_test, nothing_is_given_back_while_records_are_not_settled) {
    bool written_back = false;
    const auto is_written_back = [&] { return written_back; };
    disk_.set_written_back_check(is_written_back);
    EXPECT_FALSE(disk_.make_space({1}, {}));
    written_back = true;
    EXPECT_TRUE(disk_.make_space({1}, {}));
}

TEST_F(extent_places_test, room_behind_an_extent_comes_from_free_pages_or_from_growth) {
    const pages first = take({10}).value();
    EXPECT_TRUE(places_.make_room_behind(first, {10}, {20}));
    const pages before = space_.frontier();
    EXPECT_TRUE(places_.make_room_behind(first, {10}, before));
    EXPECT_GT(space_.frontier(), before);
    const pages rest = map_.frontier() - pages{26};
    ASSERT_TRUE(take(rest).ok());
    EXPECT_FALSE(places_.make_room_behind(first, {10}, {11})) << "a block is behind it";
}

TEST_F(extent_places_test, several_are_taken_side_by_side) {
    std::array<pages, 4> out{};
    EXPECT_EQ(places_.take_some(*places_.find_present({8}, {1}, any_node), {8}, out, any_node), 4U);
    EXPECT_THAT(out, ElementsAre(pages{16}, pages{24}, pages{32}, pages{40}));
    ASSERT_TRUE(places_.take_adjacent(*places_.find_present({32}, {16}, any_node), {16}, {8}, out).ok());
    EXPECT_THAT(out, ElementsAre(pages{48}, pages{56}, pages{64}, pages{72}));
}

}  // namespace
}  // namespace holdfast::extent
