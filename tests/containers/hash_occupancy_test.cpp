#include <cstddef>
#include <limits>

#include <gtest/gtest.h>
#include <holdfast/detail/hash_occupancy.hpp>

namespace holdfast::detail {
namespace {

hash_occupancy occupancy_of(std::size_t elements, std::size_t buckets) {
    hash_occupancy made;
    made.set_buckets(buckets);
    for (std::size_t i = 0; i < elements; ++i) {
        made.add_one();
    }
    return made;
}

TEST(hash_occupancy, of_no_elements_needs_no_buckets_but_is_full) {
    const hash_occupancy none;
    EXPECT_TRUE(none.is_full());
    EXPECT_TRUE(none.fits(0));
    EXPECT_FALSE(none.fits(1));
    EXPECT_EQ(none.rehashed(0), 0U);
    EXPECT_EQ(none.factor(0), 0.0F);
}

TEST(hash_occupancy, is_full_where_each_bucket_has_an_element) {
    EXPECT_FALSE(occupancy_of(15, 16).is_full());
    EXPECT_TRUE(occupancy_of(16, 16).is_full());
    EXPECT_EQ(occupancy_of(4, 16).factor(16), 0.25F);
}

TEST(hash_occupancy, asks_for_a_power_of_two_of_at_least_8_buckets) {
    EXPECT_EQ(occupancy_of(0, 0).grown(0), 8U);
    EXPECT_EQ(occupancy_of(16, 16).grown(16), 32U);
    EXPECT_EQ(occupancy_of(0, 0).rehashed(1), 8U);
    EXPECT_EQ(occupancy_of(0, 0).rehashed(17), 32U);
    EXPECT_EQ(occupancy_of(20, 64).rehashed(1), 32U);
}

TEST(hash_occupancy, follows_the_maximal_load_factor) {
    hash_occupancy half = occupancy_of(8, 16);
    half.set_max_factor(0.5F, 16);
    EXPECT_TRUE(half.is_full());
    EXPECT_EQ(half.buckets_for(9), 18U);
    EXPECT_EQ(half.rehashed(0), 16U);
    // The lowered factor leaves more elements than fit: the table then grows to enough buckets in one step.
    half.set_max_factor(0.125F, 16);
    EXPECT_EQ(half.grown(16), 128U);
}

TEST(hash_occupancy, ignores_a_maximal_load_factor_that_is_not_a_positive_number) {
    hash_occupancy kept = occupancy_of(0, 16);
    for (const float wrong : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN()}) {
        kept.set_max_factor(wrong, 16);
        EXPECT_EQ(kept.max_factor(), 1.0F);
    }
    kept.set_max_factor(std::numeric_limits<float>::infinity(), 16);
    EXPECT_EQ(kept.max_factor(), 1048576.0F);
}

TEST(hash_occupancy, that_is_taken_leaves_none) {
    hash_occupancy from = occupancy_of(8, 16);
    from.set_max_factor(2.0F, 16);
    hash_occupancy to;
    to.take(from);
    EXPECT_EQ(to.size(), 8U);
    EXPECT_TRUE(to.fits(32));
    EXPECT_EQ(to.max_factor(), 2.0F);
    EXPECT_EQ(from.size(), 0U);
    EXPECT_FALSE(from.fits(1));
}

}  // namespace
}  // namespace holdfast::detail
