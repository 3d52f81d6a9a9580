#include "base/checked.hpp"

#include <cstdint>
#include <limits>
#include <optional>

#include <gtest/gtest.h>

namespace holdfast::base {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

TEST(checked_add, gives_the_sum_up_to_the_largest_number) {
    EXPECT_EQ(checked_add(2, 3), 5U);
    EXPECT_EQ(checked_add(largest - 1, 1), largest);
    EXPECT_EQ(checked_add(largest, 0), largest);
}

TEST(checked_add, gives_nothing_where_the_sum_would_wrap) {
    EXPECT_EQ(checked_add(largest, 1), std::nullopt);
    EXPECT_EQ(checked_add(largest, largest), std::nullopt);
}

TEST(checked_multiply, gives_the_product_up_to_the_largest_number) {
    EXPECT_EQ(checked_multiply(6, 7), 42U);
    EXPECT_EQ(checked_multiply(0, largest), 0U);
    EXPECT_EQ(checked_multiply(largest, 1), largest);
    EXPECT_EQ(checked_multiply(std::uint64_t{1} << 32U, (std::uint64_t{1} << 32U) - 1), largest - 0xFFFF'FFFFU);
}

TEST(checked_multiply, gives_nothing_where_the_product_would_wrap) {
    EXPECT_EQ(checked_multiply(std::uint64_t{1} << 32U, std::uint64_t{1} << 32U), std::nullopt);
    EXPECT_EQ(checked_multiply(largest, 2), std::nullopt);
}

TEST(checked_align_up, rounds_to_the_next_multiple) {
    EXPECT_EQ(checked_align_up(0, 4096), 0U);
    EXPECT_EQ(checked_align_up(1, 4096), 4096U);
    EXPECT_EQ(checked_align_up(4096, 4096), 4096U);
    EXPECT_EQ(checked_align_up(largest - 4095, 4096), largest - 4095);
}

TEST(checked_align_up, gives_nothing_where_the_multiple_does_not_fit) {
    EXPECT_EQ(checked_align_up(largest - 4094, 4096), std::nullopt);
    EXPECT_EQ(checked_align_up(largest, 2), std::nullopt);
}

TEST(align, up_and_down_enclose_every_value) {
    for (std::uint64_t alignment = 1; alignment <= 64; alignment *= 2) {
        for (std::uint64_t value = 0; value < 200; ++value) {
            const std::uint64_t up = align_up(value, alignment);
            const std::uint64_t down = align_down(value, alignment);
            EXPECT_EQ(up % alignment, 0U);
            EXPECT_EQ(down % alignment, 0U);
            EXPECT_TRUE(down <= value && value <= up);
            EXPECT_EQ(up - down, value % alignment == 0 ? 0 : alignment);
            EXPECT_EQ(is_aligned(value, alignment), up == down);
        }
    }
}

TEST(is_power_of_two, zero_is_none) {
    EXPECT_FALSE(is_power_of_two(0));
    EXPECT_TRUE(is_power_of_two(1));
    EXPECT_TRUE(is_power_of_two(std::uint64_t{1} << 63U));
    EXPECT_FALSE(is_power_of_two(3));
    EXPECT_FALSE(is_power_of_two(largest));
}

TEST(divide_up, rounds_towards_the_larger_and_never_wraps) {
    EXPECT_EQ(divide_up(0, 8), 0U);
    EXPECT_EQ(divide_up(1, 8), 1U);
    EXPECT_EQ(divide_up(8, 8), 1U);
    EXPECT_EQ(divide_up(9, 8), 2U);
    EXPECT_EQ(divide_up(largest, 2), (std::uint64_t{1} << 63U));
    EXPECT_EQ(divide_up(largest, 1), largest);
}

}  // namespace
}  // namespace holdfast::base
