// Extents that become longer and shorter where they are.
#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extent/extent.hpp"
#include "extent/extent_test_support.hpp"
#include "extent/fake_space.hpp"

namespace holdfast::extent {
namespace {

using base::pages;
using segment::extent_kind;
using segment::page_entry;
using testing::IsEmpty;

class extent_resize_test : public testing::Test {
protected:
    extent_resize_test() {
        EXPECT_TRUE(space_.grow({512}).ok());
        EXPECT_TRUE(allocator_.format().ok());
    }
    void TearDown() override { EXPECT_THAT(problems_of(allocator_), IsEmpty()); }

    pages allocate(std::uint64_t length, extent_kind kind = extent_kind::used, std::uint32_t type = 0) {
        auto got = allocator_.allocate({length}, {1}, kind, type);
        EXPECT_TRUE(got.ok()) << (got ? "" : got.error().message());
        return got ? *got : pages{};
    }

    fake_space space_;
    extent_allocator allocator_{space_.view(), space_};
};

TEST_F(extent_resize_test, takes_what_is_free_behind_and_keeps_its_type) {
    const pages block = allocate(4, extent_kind::used, 7);
    EXPECT_TRUE(allocator_.resize(block, {100}));
    EXPECT_EQ(allocator_.find(block), (page_entry{extent_kind::used, {100}, 7}));
    EXPECT_EQ(allocator_.free_pages().value, 512U - 16U - 100U);
}

TEST_F(extent_resize_test, what_is_cut_off_is_free_and_united_with_what_is_free_behind) {
    const pages block = allocate(100, extent_kind::used, 7);
    EXPECT_TRUE(allocator_.resize(block, {3}));
    EXPECT_EQ(allocator_.find(block), (page_entry{extent_kind::used, {3}, 7}));
    EXPECT_EQ(allocator_.find(block + pages{3}), (page_entry{extent_kind::free, {512 - 16 - 3}}));
}

TEST_F(extent_resize_test, a_neighbour_is_not_pushed_away) {
    const pages block = allocate(4);
    const pages neighbour = allocate(4);
    EXPECT_FALSE(allocator_.resize(block, {5}));
    EXPECT_EQ(allocator_.find(block), (page_entry{extent_kind::used, {4}}));
    EXPECT_EQ(allocator_.find(neighbour), (page_entry{extent_kind::used, {4}}));
    ASSERT_TRUE(allocator_.free(neighbour).ok());
    EXPECT_TRUE(allocator_.resize(block, {5}));
}

TEST_F(extent_resize_test, at_its_end_the_heap_grows) {
    const pages block = allocate(400);
    EXPECT_TRUE(allocator_.resize(block, {5000}));
    EXPECT_EQ(allocator_.find(block), (page_entry{extent_kind::used, {5000}}));
    EXPECT_GE(allocator_.frontier().value, 5016U);
}

TEST_F(extent_resize_test, holes_behind_get_space_first_and_a_full_disk_leaves_the_block_as_it_was) {
    space_.reserve_at_once(0);
    const pages block = allocate(600);  // the heap grows, and ahead of need without space
    space_.set_disk(space_.on_disk() + 1);
    EXPECT_TRUE(allocator_.resize(block, {601}));
    EXPECT_TRUE(space_.is_backed(block + pages{600}));
    EXPECT_FALSE(allocator_.resize(block, {900}));
    EXPECT_EQ(allocator_.find(block), (page_entry{extent_kind::used, {601}}));
}

TEST_F(extent_resize_test, nothing_but_a_block_in_use_is_resized) {
    const pages slab = allocate(16, extent_kind::slab);
    const pages freed = allocate(16);
    const pages last = allocate(16);
    ASSERT_TRUE(allocator_.free(freed).ok());
    EXPECT_FALSE(allocator_.resize(slab, {17}));
    EXPECT_FALSE(allocator_.resize(freed, {8}));
    EXPECT_FALSE(allocator_.resize(last + pages{1}, {8}));
    EXPECT_FALSE(allocator_.resize({100'000}, {8}));
    EXPECT_FALSE(allocator_.resize(last, {}));
}

/// After any prefix of the stores of a resize, the entries tile the space, so an open accepts them.
TEST_F(extent_resize_test, an_open_accepts_every_state_on_the_way) {
    const auto opens = [&] { return extent_allocator(space_.view(), space_).open(space_.frontier()).ok(); };
    const pages block = allocate(10);
    std::uint64_t* const words = &space_.view().page_entry_word({0});
    const std::vector<std::uint64_t> before(words, words + 512);
    for (const std::uint64_t wanted : {20U, 5U, 496U}) {
        ASSERT_TRUE(allocator_.resize(block, {wanted}));
        const std::vector<std::uint64_t> now(words, words + 512);
        std::copy(before.begin(), before.end(), words);
        // The entry behind the block's new end is written first, inside an extent; then that of the block.
        const std::uint64_t end = block.value + wanted;
        if (end < 512) {
            words[end] = now[end];
            EXPECT_TRUE(opens()) << wanted;
        }
        words[block.value] = now[block.value];
        EXPECT_TRUE(opens()) << wanted;
        std::copy(now.begin(), now.end(), words);
        ASSERT_TRUE(allocator_.resize(block, {10}));
    }
}

}  // namespace
}  // namespace holdfast::extent
