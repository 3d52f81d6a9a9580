// The index after a crash: several threads find what one walk finds, and damage is named whichever thread meets it.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extent/extent.hpp"
#include "extent/extent_test_support.hpp"
#include "extent/fake_space.hpp"

namespace holdfast::extent {
namespace {

using base::failure_code;
using base::pages;
using segment::extent_kind;
using testing::HasSubstr;
using testing::IsEmpty;

/// Blocks and slabs, half of them freed again.
std::vector<extent> make_extents(fake_space& space, std::mt19937_64& random) {
    extent_allocator allocator(space.view(), space);
    EXPECT_TRUE(allocator.format().ok());
    std::vector<pages> blocks;
    const std::uint64_t largest = std::uint64_t{1} << (1 + random() % 12);
    for (int i = 0; i < 60; ++i) {
        const bool slab = random() % 3 == 0;
        const auto got = slab ? allocator.allocate({16}, {16}, extent_kind::slab)
                              : allocator.allocate({1 + random() % largest}, {1}, extent_kind::used);
        if (got) {
            blocks.push_back(*got);
        }
    }
    for (const pages block : blocks) {
        if (random() % 2 == 0) {
            EXPECT_TRUE(allocator.free(block, allocator.find(block)->kind).ok());
        }
    }
    std::vector<extent> all;
    allocator.for_each([&all](const extent& found) { all.push_back(found); });
    return all;
}

/// Hints are lost, or of another time.
void spoil_hints(fake_space& space, const std::vector<extent>& all, std::mt19937_64& random) {
    for (const extent& found : all) {
        for (std::uint64_t page = found.start.value + 1; page < found.start.value + found.length.value; ++page) {
            if (random() % 16 == 0) {
                const auto kind = random() % 2 == 0 ? extent_kind::free : extent_kind::reserved;
                space.view().page_entry_word({page}) = segment::encode({kind, {1 + random() % 100}});
            }
        }
        if (found.kind == extent_kind::free) {
            space.view().page_entry_word(found.start) = 0;
        }
    }
}

TEST(extent_recover_test, parts_find_what_one_walk_finds) {
    std::mt19937_64 random(11);
    for (int round = 0; round < 60; ++round) {
        fake_space space(256 * base::mebibyte, 64 * base::mebibyte);
        ASSERT_TRUE(space.grow({4096}).ok());
        const std::vector<extent> expected = make_extents(space, random);
        for (const unsigned parts : {1U, 2U, 3U, 7U, 100U}) {
            spoil_hints(space, expected, random);
            extent_allocator recovered(space.view(), space);
            std::vector<extent> slabs;
            const auto note = [&slabs](const extent& slab) { slabs.push_back(slab); };
            ASSERT_TRUE(recovered.recover(space.frontier(), note, parts).ok());
            EXPECT_THAT(problems_of(recovered), IsEmpty());
            std::vector<extent> found;
            recovered.for_each([&found](const extent& one) { found.push_back(one); });
            ASSERT_EQ(found, expected) << parts << " parts";
            std::erase_if(found, [](const extent& one) { return one.kind != extent_kind::slab; });
            ASSERT_EQ(slabs, found);
        }
    }
}

TEST(extent_recover_test, damage_is_named_whoever_meets_it) {
    fake_space space(256 * base::mebibyte, 64 * base::mebibyte);
    ASSERT_TRUE(space.grow({4096}).ok());
    extent_allocator first(space.view(), space);
    ASSERT_TRUE(first.format().ok());
    ASSERT_TRUE(first.allocate({3000}, {1}, extent_kind::used).ok());
    const auto recovered = [&space](unsigned parts) {
        extent_allocator again(space.view(), space);
        return again.recover(
            space.frontier(), [](const extent&) {}, parts);
    };
    std::uint64_t& roots = space.view().page_entry_word({0});
    std::uint64_t& inside = space.view().page_entry_word({2048});
    std::uint64_t& late = space.view().page_entry_word({3500});
    for (const unsigned parts : {1U, 4U}) {
        EXPECT_TRUE(recovered(parts).ok());
        late = segment::encode({extent_kind::used, {4000}});
        EXPECT_THAT(recovered(parts).error().message(), HasSubstr("EXT-1"));
        late = 0;
        const std::uint64_t good = std::exchange(roots, 0);
        EXPECT_EQ(recovered(parts).error().code, failure_code::corrupt);
        roots = segment::encode({extent_kind::free, {16}});
        EXPECT_THAT(recovered(parts).error().message(), HasSubstr("EXT-5"));
        roots = good;
    }
    inside = segment::encode({extent_kind::used, {1}});
    EXPECT_THAT(recovered(4).error().message(), HasSubstr("EXT-6"));
    inside = 0;
    EXPECT_TRUE(recovered(4).ok());
}

}  // namespace
}  // namespace holdfast::extent
