#include "segment/commit/warm_pages.hpp"

#include <memory>
#include <set>

#include <gtest/gtest.h>

namespace holdfast::segment {
namespace {

using base::page_size;

class warm_pages_test : public testing::Test {
protected:
    static constexpr std::uint64_t blocks = 400;

    /// Nobody reads it.
    std::byte* page(std::uint64_t block, std::uint64_t at) {
        return reinterpret_cast<std::byte*>((std::uint64_t{1} << 40U) + block * warm_pages::block_size +
                                            at * page_size);
    }
    std::set<std::byte*> shrink() {
        std::set<std::byte*> gone;
        pages_.shrink([&](std::byte* each) { EXPECT_TRUE(gone.insert(each).second); });
        return gone;
    }
    warm_pages pages_;
};

TEST_F(warm_pages_test, has_the_last_found_first) {
    ASSERT_TRUE(pages_.add(page(1, 0)));
    ASSERT_TRUE(pages_.add(page(2, 63)));
    ASSERT_TRUE(pages_.add(page(3, 7)));
    ASSERT_TRUE(pages_.add(page(1, 5)));
    ASSERT_TRUE(pages_.add(page(1, 5)));
    ASSERT_EQ(pages_.blocks().size(), 3U);
    EXPECT_EQ(pages_.blocks()[0].begin, page(1, 0));
    EXPECT_EQ(pages_.blocks()[0].pages, 0b100001U);
    EXPECT_EQ(pages_.blocks()[1].begin, page(3, 0));
    EXPECT_FALSE(pages_.is_full());
    EXPECT_TRUE(shrink().empty());
}

TEST_F(warm_pages_test, lets_the_first_found_go_when_it_is_full) {
    std::set<std::byte*> all;
    std::uint64_t commit = 0;
    while (!pages_.is_full()) {
        ASSERT_TRUE(pages_.add(page(commit, commit % 64)));
        all.insert(page(commit, commit % 64));
        ++commit;
        ASSERT_LT(commit, blocks);
    }
    ASSERT_TRUE(pages_.add(page(0, 0)));
    const std::set<std::byte*> gone = shrink();
    EXPECT_FALSE(pages_.is_full());
    EXPECT_FALSE(gone.contains(page(0, 0)));
    EXPECT_FALSE(gone.contains(page(commit - 1, (commit - 1) % 64)));
    EXPECT_TRUE(gone.contains(page(1, 1)));
    EXPECT_EQ(gone.size() + pages_.blocks().size(), all.size());
    std::set<std::byte*> rest;
    pages_.drop_all([&](std::byte* each) { rest.insert(each); });
    EXPECT_EQ(rest.size() + gone.size(), all.size());
    EXPECT_TRUE(pages_.blocks().empty());
}

/// Of many pages in few blocks, too.
TEST_F(warm_pages_test, is_bounded_by_pages) {
    std::uint64_t added = 0;
    while (!pages_.is_full()) {
        ASSERT_TRUE(pages_.add(page(added / 64, added % 64)));
        ++added;
        ASSERT_LE(added, std::uint64_t{4096});
    }
    EXPECT_GE(shrink().size(), added / 4);
}

}  // namespace
}  // namespace holdfast::segment
