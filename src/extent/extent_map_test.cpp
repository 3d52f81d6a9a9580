#include "extent/extent_map.hpp"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extent/extent_checker.hpp"
#include "extent/extent_open.hpp"
#include "extent/fake_space.hpp"
#include "extent/heap_end.hpp"

namespace holdfast::extent {
namespace {

using base::failure_code;
using base::pages;
using segment::extent_kind;
using segment::page_entry;
using testing::ElementsAre;
using testing::IsEmpty;

class extent_map_test : public testing::Test {
protected:
    extent_map_test() {
        EXPECT_TRUE(space_.grow({512}).ok());
        EXPECT_TRUE(map_.reset().ok());
        map_.format(space_.frontier(), space_.frontier() - pages{16});
    }
    ~extent_map_test() override {
        std::vector<std::string> problems;
        extent_checker(map_).check(problems);
        EXPECT_THAT(problems, IsEmpty());
    }
    extent_map_test(const extent_map_test&) = delete;
    extent_map_test& operator=(const extent_map_test&) = delete;

    /// `in`: the start of the free extent.
    [[nodiscard]] free_index::placement place(pages in, pages at) const {
        return {{in, map_.free().length_at(in), {}}, at};
    }
    pages carve(pages in, pages at, pages length) { return map_.carve(place(in, at), {extent_kind::used, length}); }
    void free(pages start) {
        const auto length = map_.withdraw(start, extent_kind::used);
        ASSERT_TRUE(length.ok());
        map_.unite({start, *length, *length});
    }
    [[nodiscard]] std::vector<pages> free_lengths() const {
        std::vector<pages> found;
        pages position{};
        extent_map::some_extents some;
        const std::size_t count = map_.copy_some(position, some);
        for (std::size_t i = 0; i < count; ++i) {
            if (some.at(i).kind == extent_kind::free) {
                found.push_back(some.at(i).length);
            }
        }
        return found;
    }

    fake_space space_{256 * base::mebibyte};
    extent_map map_{space_.view()};
};

TEST_F(extent_map_test, a_place_in_the_middle_leaves_two_free_extents) {
    EXPECT_EQ(carve({16}, {100}, {50}).value, 100U);
    EXPECT_THAT(free_lengths(), ElementsAre(pages{84}, map_.frontier() - pages{150}));
    EXPECT_EQ(map_.find({100}), (page_entry{extent_kind::used, {50}}));
    EXPECT_EQ(map_.containing({149})->start.value, 100U);
    EXPECT_EQ(map_.find({101}), std::nullopt);
}

TEST_F(extent_map_test, a_freed_extent_is_united_with_both_neighbours) {
    carve({16}, {16}, {10});
    carve({26}, {26}, {10});
    carve({36}, {36}, {10});
    free({16});
    free({36});
    EXPECT_THAT(free_lengths(), ElementsAre(pages{10}, map_.frontier() - pages{36}));
    free({26});
    EXPECT_THAT(free_lengths(), ElementsAre(map_.frontier() - pages{16}));
    EXPECT_EQ(map_.withdraw({26}, extent_kind::used).error().code, failure_code::bad_address);
}

TEST_F(extent_map_test, several_are_carved_and_united_at_once) {
    std::array<pages, 3> out{};
    map_.carve_some(place({16}, {20}), {8}, out);
    EXPECT_THAT(out, ElementsAre(pages{20}, pages{28}, pages{36}));
    EXPECT_EQ(map_.index().counts()[extent_kind::reserved], 3U);
    const std::array<extent, 3> run{extent{{20}, {8}}, extent{{28}, {8}}, extent{{36}, {8}}};
    map_.unite_reserved(run);
    EXPECT_THAT(free_lengths(), ElementsAre(map_.frontier() - pages{16}));
}

TEST_F(extent_map_test, one_of_two_claims_succeeds) {
    carve({16}, {16}, {10});
    EXPECT_EQ(map_.claim({16}, {11}, {20}), std::nullopt) << "too short";
    EXPECT_EQ(map_.claim({16}, {4}, {20}), (extent{{16}, {10}, extent_kind::reserved}));
    EXPECT_EQ(map_.claim({16}, {4}, {20}), std::nullopt);
}

TEST_F(extent_map_test, an_extent_changes_its_length_in_place) {
    carve({16}, {16}, {10});
    ASSERT_TRUE(map_.extend({16}, {extent_kind::used, {10}}, {30}));
    EXPECT_EQ(map_.find({16})->length.value, 30U);
    ASSERT_TRUE(map_.trim({16}, {extent_kind::used, {30}}, {5}));
    EXPECT_THAT(free_lengths(), ElementsAre(map_.frontier() - pages{21}));
    EXPECT_FALSE(map_.trim({16}, {extent_kind::used, {30}}, {4})) << "it has another length";
}

TEST_F(extent_map_test, the_backed_end_of_a_free_extent_is_reserved_without_the_holes_behind) {
    const pages end = map_.frontier();
    const pages holes{100};
    map_.backing().set_hole(end - holes, holes);
    map_.index().remove_backed({16}, holes);
    const free_index::run one = map_.reserve_backed_end(*map_.free().oldest_backed(), {64});
    EXPECT_EQ(one.start, end - holes - pages{64});
    EXPECT_EQ(one.length.value, 64U);
    EXPECT_EQ(one.backed.value, 64U);
    EXPECT_EQ(map_.free().backed(), end - holes - pages{64 + 16});
}

TEST_F(extent_map_test, is_cut_and_restored_at_its_end) {
    ASSERT_TRUE(space_.grow({512}).ok());
    heap_end end(map_, space_);
    ASSERT_TRUE(end.grow_for({600}, {1}).ok());
    EXPECT_EQ(map_.frontier(), space_.frontier());
    const pages excess = end.excess({});
    EXPECT_EQ(end.shorten({}), excess);
    EXPECT_EQ(map_.frontier(), space_.unit());
    EXPECT_EQ(end.excess({}).value, 0U);
    end.restore();
    EXPECT_EQ(map_.frontier(), space_.frontier());
    EXPECT_THAT(free_lengths(), ElementsAre(map_.frontier() - pages{16}));
}

TEST_F(extent_map_test, is_opened_as_it_was_but_reserved_extents_are_free) {
    carve({16}, {16}, {10});
    std::array<pages, 1> taken{};
    map_.carve_some(place({26}, {26}), {8}, taken);
    extent_map again(space_.view());
    std::vector<extent> unwritten;
    std::vector<extent> found;
    ASSERT_TRUE(open_extents(
                    again, space_.frontier(), [&](const extent& each) { found.push_back(each); }, unwritten)
                    .ok());
    EXPECT_THAT(found, ElementsAre(extent{{0}, {16}, extent_kind::roots}, extent{{16}, {10}, extent_kind::used}));
    EXPECT_THAT(unwritten, ElementsAre(extent{{26}, again.frontier() - pages{26}, extent_kind::free}));
    EXPECT_EQ(again.free().total(), again.frontier() - pages{26});
}

}  // namespace
}  // namespace holdfast::extent
