#include "base/units.hpp"

#include <concepts>
#include <cstdint>
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
}  // namespace holdfast::base
