#include "heap/operations/block_claims.hpp"

#include <chrono>
#include <memory>

#include <gtest/gtest.h>

namespace holdfast::heap {
namespace {

TEST(block_claims_test, of_large_groups_and_small_ones_exclude_each_other) {
    block_claims claims;
    large_claims large(claims, 1000);
    large_claims other(claims, 200);
    block_claim small;
    ASSERT_TRUE(claims.try_claim(small, 64));
    block_claim first;
    block_claim second;
    EXPECT_FALSE(claims.try_claim(first, 64, large.table()));
    ASSERT_TRUE(claims.try_claim(first, 128, large.table()));
    EXPECT_FALSE(claims.try_claim(second, 128, other.table()));
    EXPECT_FALSE(claims.try_claim(second, 128));
    first.give_up();
    EXPECT_TRUE(claims.try_claim(second, 128, other.table()));
    small.give_up();
    EXPECT_TRUE(claims.try_claim(first, 64, large.table()));
}

TEST(block_claims_test, end_with_their_group) {
    block_claims claims;
    {
        large_claims large(claims, 100);
        const auto all = std::make_unique<block_claim[]>(100);
        for (std::uint64_t i = 0; i < 100; ++i) {
            ASSERT_TRUE(claims.try_claim(all[i], i * 16, large.table()));
            EXPECT_TRUE(all[i].is_of(i * 16));
        }
    }
    block_claim again;
    EXPECT_TRUE(claims.try_claim(again, 0));
}

/// A group that frees a dict of a million entries: with the buckets of small groups it took minutes.
TEST(block_claims_test, of_a_million_blocks_take_a_moment) {
    constexpr std::size_t blocks = 1'000'000;
    const auto begin = std::chrono::steady_clock::now();
    block_claims claims;
    {
        large_claims large(claims, blocks);
        const auto all = std::make_unique<block_claim[]>(blocks);
        for (std::uint64_t i = 0; i < blocks; ++i) {
            ASSERT_TRUE(claims.try_claim(all[i], i * 96, large.table()));
        }
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace holdfast::heap
