#include "segment/files/private_memory.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "base/under_qemu.hpp"
#include "base/units.hpp"
#include "segment/files/address_range.hpp"
#include "segment/files/kernel_limits.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {

namespace {

using base::mebibyte;
using base::page_size;

class private_moves : public testing::Test {
protected:
    private_moves() { EXPECT_TRUE(map_zeroed(area_.begin(), area_.size(), false).ok()); }

    /// Each eight are nowhere else.
    void fill(std::byte* from, std::uint64_t bytes) {
        for (std::uint64_t i = 0; i < bytes; i += sizeof seed_) {
            ++seed_;
            std::memcpy(from + i, &seed_, std::min(sizeof seed_, bytes - i));
        }
    }
    [[nodiscard]] static std::vector<std::byte> copy_of(const std::byte* from, std::uint64_t bytes) {
        return {from, from + bytes};
    }
    [[nodiscard]] static bool holds(const std::byte* at, const std::vector<std::byte>& expected) {
        return std::memcmp(at, expected.data(), expected.size()) == 0;
    }
    [[nodiscard]] static bool is_in_memory(std::byte* page) {
        unsigned char answer = 0;
        EXPECT_EQ(::mincore(page, page_size, &answer), 0);
        return (answer & 1U) != 0;
    }
    static void part(std::byte* from, std::uint64_t bytes) { EXPECT_EQ(::madvise(from, bytes, MADV_DONTDUMP), 0); }
    [[nodiscard]] std::byte* at(std::uint64_t mebibytes) const { return area_.begin() + mebibytes * mebibyte; }

    address_range area_ = must(address_range::anywhere(64 * mebibyte, 0, 2 * mebibyte));
    std::uint64_t seed_ = 0;
};

TEST_F(private_moves, take_the_pages_along) {
    constexpr std::uint64_t bytes = 8 * mebibyte + 3 * page_size + 17;
    fill(at(0), bytes);
    const auto expected = copy_of(at(0), bytes);
    move_private_memory(at(32), at(0), bytes);
    EXPECT_TRUE(holds(at(32), expected));
    EXPECT_EQ(is_in_memory(at(0)), base::under_qemu) << "copied";
    EXPECT_EQ(is_in_memory(at(7)), base::under_qemu) << "copied";
    fill(at(0), bytes);
    EXPECT_TRUE(holds(at(32), expected)) << "still the same pages";
}

TEST_F(private_moves, of_short_blocks_and_of_such_that_begin_within_a_page_are_copies) {
    for (const auto& [from, bytes] : {std::pair{at(0), least_moved - page_size}, std::pair{at(0) + 64, 4 * mebibyte}}) {
        fill(from, bytes);
        const auto expected = copy_of(from, bytes);
        move_private_memory(at(32), from, bytes);
        EXPECT_TRUE(holds(at(32), expected));
        EXPECT_TRUE(holds(from, expected));
    }
}

/// The old place keeps its memory for the next block.
TEST_F(private_moves, to_a_place_with_memory_are_copies) {
    constexpr std::uint64_t bytes = 6 * mebibyte + page_size;
    for (const std::uint64_t pages_between : {std::uint64_t{1}, std::uint64_t{3}}) {
        ASSERT_EQ(::madvise(area_.begin(), area_.size(), MADV_DONTNEED), 0);
        fill(at(0), bytes);
        const auto expected = copy_of(at(0), bytes);
        for (std::uint64_t i = 0; i < bytes; i += pages_between * page_size) {
            at(32)[i] = std::byte{1};
        }
        move_private_memory(at(32), at(0), bytes);
        EXPECT_TRUE(holds(at(32), expected));
        EXPECT_EQ(is_in_memory(at(0)), pages_between == 1 || base::under_qemu);
        EXPECT_EQ(is_in_memory(at(5)), pages_between == 1 || base::under_qemu);
    }
}

TEST_F(private_moves, go_by_the_mappings_that_the_kernel_has) {
    constexpr std::uint64_t bytes = 12 * mebibyte;
    fill(at(0), bytes);
    const auto expected = copy_of(at(0), bytes);
    part(at(0) + 5 * page_size, page_size);
    part(at(3), 4 * mebibyte);
    part(at(40), mebibyte);
    move_private_memory(at(32), at(0), bytes);
    EXPECT_TRUE(holds(at(32), expected));
    for (const std::uint64_t place : {0U, 4U, 9U}) {
        EXPECT_EQ(is_in_memory(at(place)), base::under_qemu) << place;
    }
}

TEST_F(private_moves, of_many_mappings_are_copies) {
    constexpr std::uint64_t bytes = 4 * mebibyte;
    fill(at(0), bytes);
    const auto expected = copy_of(at(0), bytes);
    for (std::uint64_t i = 0; i < 20; ++i) {
        part(at(0) + (2 * i + 1) * page_size, page_size);
    }
    move_private_memory(at(32), at(0), bytes);
    EXPECT_TRUE(holds(at(32), expected));
    EXPECT_TRUE(holds(at(0), expected));
}

TEST_F(private_moves, of_locked_pages_are_copies) {
    constexpr std::uint64_t bytes = mebibyte;
    fill(at(0), bytes);
    const auto expected = copy_of(at(0), bytes);
    ASSERT_EQ(::syscall(SYS_mlock, at(0), bytes), 0);  // sanitizers replace mlock() by nothing
    move_private_memory(at(32), at(0), bytes);
    EXPECT_TRUE(holds(at(32), expected));
    EXPECT_TRUE(holds(at(0), expected));
}

/// Mappings of the process are looked at once in 256 moves.
TEST_F(private_moves, of_a_process_with_many_mappings_are_copies) {
    const std::uint64_t wanted = 2 * most_mapped_ranges();
    base::child_process child([&] {
        const auto many = must(address_range::anywhere((wanted + 2) * page_size, 0, page_size));
        for (std::uint64_t i = 0; i < wanted; i += 2) {
            ASSERT_EQ(::mprotect(many.begin() + i * page_size, page_size, PROT_READ), 0);
        }
        constexpr std::uint64_t bytes = mebibyte;
        for (int i = 0; i < 257; ++i) {
            move_private_memory(at(32), at(0), bytes);
        }
        fill(at(0), bytes);
        const auto expected = copy_of(at(0), bytes);
        move_private_memory(at(32), at(0), bytes);
        ASSERT_TRUE(holds(at(32), expected));
        ASSERT_TRUE(holds(at(0), expected)) << "its pages have moved";
    });
    ASSERT_TRUE(child.wait().succeeded());
}

TEST_F(private_moves, may_follow_each_other) {
    constexpr std::uint64_t half = 32;
    std::mt19937_64 random(11);
    for (int i = 0; i < 150 && !HasFailure(); ++i) {
        const bool upward = random() % 2 == 0;
        const std::uint64_t bytes = mebibyte / 2 + random() % (4 * mebibyte);
        std::byte* const from = at(upward ? 0 : half) + random() % 3000 * page_size;
        std::byte* const to = at(upward ? half : 0) + random() % 3000 * page_size;
        const std::uint64_t filled = random() % (bytes + 1);
        fill(from + bytes - filled, filled);
        const auto expected = copy_of(from, bytes);
        const auto behind = copy_of(to + bytes, page_size);
        move_private_memory(to, from, bytes);
        EXPECT_TRUE(holds(to, expected)) << i;
        EXPECT_TRUE(holds(to + bytes, behind)) << i;
    }
    EXPECT_EQ(::mprotect(area_.begin(), area_.size(), PROT_READ | PROT_WRITE), 0) << "a part of it is not mapped";
}

}  // namespace

}  // namespace holdfast::segment
