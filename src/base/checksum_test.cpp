#include "base/checksum.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::base {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span{text}); }

std::vector<std::byte> pattern(std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::uint32_t state = 1;
    for (std::byte& byte : bytes) {
        state = state * 1664525U + 1013904223U;
        byte = static_cast<std::byte>(state >> 24U);
    }
    return bytes;
}

// These values are on media: a change of them makes every heap unreadable. The first is that of the specification of
// XXH3 for the empty input.
TEST(checksum64, is_xxh3_and_stays_so) {
    EXPECT_EQ(checksum64({}), 0x2D06'8005'38D3'94C2U);
    EXPECT_EQ(checksum64(bytes_of("holdfast")), 0x4DDF'46EB'D3AD'850BU);
    EXPECT_EQ(checksum64(bytes_of("holdfast"), 7), 0xA9CF'1D7D'27F9'1695U);
    EXPECT_EQ(checksum64(pattern(4096)), 0x436F'521F'6688'C5EDU);
}

TEST(checksum64, sees_every_flipped_bit_of_a_page) {
    std::vector<std::byte> page = pattern(4096);
    const std::uint64_t before = checksum64(page);
    std::set<std::uint64_t> seen{before};
    for (std::size_t bit = 0; bit < page.size() * 8; ++bit) {
        const auto mask = static_cast<std::byte>(1U << (bit % 8));
        page[bit / 8] ^= mask;
        EXPECT_TRUE(seen.insert(checksum64(page)).second) << "bit " << bit;
        page[bit / 8] ^= mask;
    }
    EXPECT_EQ(checksum64(page), before);
}

TEST(checksum64, depends_on_length_and_seed) {
    const std::array<std::byte, 64> zeros{};
    const std::span<const std::byte> all{zeros};
    EXPECT_NE(checksum64(all.first(63)), checksum64(all));
    EXPECT_NE(checksum64(all, 1), checksum64(all, 2));
}

TEST(page_checksum, is_the_low_half_and_never_zero) {
    const std::vector<std::byte> page = pattern(4096);
    EXPECT_EQ(page_checksum(page), static_cast<std::uint32_t>(checksum64(page)));
    const std::vector<std::byte> zeros(4096);
    EXPECT_NE(page_checksum(zeros), 0U);
}

TEST(running_checksum, equals_the_checksum_of_the_whole_however_it_is_cut) {
    const std::vector<std::byte> bytes = pattern(3000);
    const std::span<const std::byte> all{bytes};
    for (const std::size_t part : {std::size_t{1}, std::size_t{7}, std::size_t{256}, std::size_t{2999}}) {
        running_checksum sum{42};
        for (std::size_t at = 0; at < all.size(); at += part) {
            sum.add(all.subspan(at, std::min(part, all.size() - at)));
        }
        EXPECT_EQ(sum.value(), checksum64(all, 42)) << part;
    }
}

TEST(running_checksum, of_nothing_is_the_checksum_of_nothing) {
    const running_checksum sum;
    EXPECT_EQ(sum.value(), checksum64({}));
}

TEST(running_checksum, can_be_read_between_parts) {
    running_checksum sum;
    sum.add(bytes_of("hold"));
    EXPECT_EQ(sum.value(), checksum64(bytes_of("hold")));
    sum.add(bytes_of("fast"));
    EXPECT_EQ(sum.value(), checksum64(bytes_of("holdfast")));
}

}  // namespace
}  // namespace holdfast::base
