// The page entries: what is written, what a clean open reads, and what a recovery believes.
#include "extent/page_entries.hpp"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extent/fake_space.hpp"

namespace holdfast::extent {
namespace {

using base::failure_code;
using base::pages;
using segment::extent_kind;
using testing::ElementsAre;
using testing::HasSubstr;

class page_entries_test : public testing::Test {
protected:
    static constexpr extent roots{{0}, {16}, extent_kind::roots};
    static constexpr extent slab{{16}, {16}, extent_kind::slab};
    static constexpr extent reserved{{32}, {8}, extent_kind::reserved};
    static constexpr extent block{{40}, {300}, extent_kind::used, 7};
    static constexpr extent rest{{340}, {172}, extent_kind::free};
    static constexpr pages frontier{512};

    page_entries_test() {
        EXPECT_TRUE(space_.grow(frontier).ok());
        for (const extent& each : {roots, slab, reserved, block, rest}) {
            entries_.store(each.start, {each.kind, each.length, each.type});
        }
    }
    [[nodiscard]] std::vector<extent> blocks() const {
        std::vector<extent> found;
        EXPECT_TRUE(entries_.read_blocks(frontier, [&](const extent& each) { found.push_back(each); }).ok());
        return found;
    }
    [[nodiscard]] base::result<std::vector<extent>> walked() const {
        std::vector<extent> found;
        HF_TRY(entries_.walk(frontier, [&](const extent& each) { found.push_back(each); }));
        return found;
    }

    fake_space space_{64 * base::mebibyte};
    page_entries entries_{space_.view()};
};

TEST_F(page_entries_test, a_walk_finds_every_extent) {
    EXPECT_THAT(walked().value(), ElementsAre(roots, slab, reserved, block, rest));
}

TEST_F(page_entries_test, a_walk_names_the_invariant_that_does_not_hold) {
    entries_.store(reserved.start, {});
    EXPECT_THAT(walked().error().message(), HasSubstr("EXT-1"));
    entries_.store(reserved.start, {extent_kind::slab, reserved.length});
    EXPECT_THAT(walked().error().message(), HasSubstr("EXT-4"));
}

TEST_F(page_entries_test, a_recovery_believes_blocks_alone) {
    entries_.store(reserved.start, {extent_kind::free, {400}});
    entries_.store(rest.start, {});
    EXPECT_THAT(blocks(), ElementsAre(roots, slab, block));
}

TEST_F(page_entries_test, rebuilt_ones_tile_the_space) {
    entries_.store(rest.start, {});
    entries_.store({400}, {extent_kind::reserved, {1000}});
    ASSERT_TRUE(entries_.rebuild(frontier).ok());
    EXPECT_THAT(walked().value(), ElementsAre(roots, slab, extent{{32}, {8}, extent_kind::free}, block, rest));
    EXPECT_EQ(entries_.load({400}), 0U);
}

TEST_F(page_entries_test, are_replaced_only_where_they_are_as_expected) {
    const std::uint64_t before = entries_.load(block.start);
    EXPECT_TRUE(entries_.replace(block.start, before, {extent_kind::reserved, block.length}));
    EXPECT_FALSE(entries_.replace(block.start, before, {extent_kind::used, {1}}));
    EXPECT_TRUE(entries_.is_reserved(block.start, block.length));
    EXPECT_FALSE(entries_.is_reserved(block.start, {1}));
}

TEST_F(page_entries_test, a_frontier_beyond_the_reservation_is_damage) {
    EXPECT_TRUE(entries_.check_frontier(frontier).ok());
    EXPECT_EQ(entries_.check_frontier({0}).error().code, failure_code::corrupt);
    EXPECT_EQ(entries_.check_frontier(entries_.reserved() + pages{1}).error().code, failure_code::corrupt);
}

}  // namespace
}  // namespace holdfast::extent
