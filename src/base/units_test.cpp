#include "base/units.hpp"

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

#include <gtest/gtest.h>

namespace holdfast::base {

namespace {

template <class A, class B>
concept addable = requires(A a, B b) { a + b; };
template <class A, class B>
concept comparable = requires(A a, B b) { a < b; };

static_assert(addable<pages, pages> && !addable<pages, heap_offset> && !addable<pages, std::uint64_t>);
static_assert(comparable<pages, pages> && !comparable<pages, granule> && !comparable<granule, heap_offset>);
static_assert(!std::is_convertible_v<pages, std::uint64_t> && !std::is_convertible_v<pages, granule>);
static_assert(sizeof(pages) == 8 && std::is_trivially_copyable_v<pages>);

TEST(quantity, adds_subtracts_and_compares_within_its_unit) {
    pages count{5};
    count += pages{3};
    EXPECT_EQ(count, pages{8});
    count -= pages{2};
    EXPECT_EQ(count, pages{6});
    EXPECT_EQ(pages{6} + pages{1}, pages{7});
    EXPECT_EQ(pages{6} - pages{1}, pages{5});
    EXPECT_LT(pages{1}, pages{2});
    EXPECT_GE(pages{2}, pages{2});
    EXPECT_EQ(pages{}, pages{0});
}

TEST(units, a_granule_is_sixteen_pages) {
    EXPECT_EQ(page_size, 4096U);
    EXPECT_EQ(granule_size, 65536U);
    EXPECT_EQ(pages_per_granule, 16U);
    EXPECT_EQ(first_page(granule{2}), pages{32});
    EXPECT_EQ(granule_of(pages{31}), granule{1});
    EXPECT_EQ(granule_of(pages{32}), granule{2});
}

TEST(units, pages_for_rounds_up_and_never_wraps) {
    EXPECT_EQ(pages_for(0), pages{0});
    EXPECT_EQ(pages_for(1), pages{1});
    EXPECT_EQ(pages_for(page_size), pages{1});
    EXPECT_EQ(pages_for(page_size + 1), pages{2});
    EXPECT_EQ(pages_for(UINT64_MAX), pages{std::uint64_t{1} << 52U});
}

TEST(units, offset_and_position_convert_back) {
    for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{17}, std::uint64_t{1} << 35U}) {
        EXPECT_EQ(page_of(offset_of(pages{index})), pages{index});
        EXPECT_EQ(granule_of(offset_of(granule{index})), granule{index});
        EXPECT_EQ(to_bytes(pages{index}), offset_of(pages{index}).value);
    }
    EXPECT_EQ(page_of(heap_offset{page_size - 1}), pages{0});
    EXPECT_EQ(granule_of(heap_offset{granule_size - 1}), granule{0});
}

}  // namespace

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
