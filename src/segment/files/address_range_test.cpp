#include "segment/files/address_range.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.hpp"
#include "persist/descriptor.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

using base::failure_code;
using base::page_size;
using testing::HasSubstr;

constexpr std::uint64_t large = 2 * base::mebibyte;

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

/// Whether a load would succeed, asked of the kernel.
bool is_readable(const std::byte* address) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    const persist::descriptor reader(ends[0]);
    const persist::descriptor writer(ends[1]);
    return ::syscall(SYS_write, writer.get(), address, 1) == 1;
}

class mapped_files : public testing::Test {
protected:
    mapped_files() : fd_(::open(path_.c_str(), O_RDWR | O_CREAT, 0600)) {
        const std::vector<char> text(4 * page_size, 'f');
        EXPECT_EQ(::pwrite(fd_.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    }
    test_directory directory_;
    std::string path_ = directory_.path("file");
    persist::descriptor fd_;
};

TEST(address_ranges, are_aligned_where_they_are_told_to) {
    for (const std::uint64_t at : {std::uint64_t{0}, page_size, 5 * page_size, large - page_size, large}) {
        const auto range = must(address_range::anywhere(3 * large, at, large));
        EXPECT_EQ((number(range.begin()) + at) % large, 0U);
        EXPECT_EQ(range.size(), 3 * large);
        EXPECT_FALSE(is_readable(range.begin()));
    }
}

TEST(address_ranges, give_their_addresses_back) {
    std::byte* begin = nullptr;
    {
        const auto range = must(address_range::anywhere(4 * large, 0, large));
        begin = range.begin();
        EXPECT_FALSE(address_range::exactly(begin, large).ok());
        EXPECT_FALSE(address_range::exactly(begin + 3 * large, large).ok());
    }
    const auto again = must(address_range::exactly(begin, 4 * large));
    EXPECT_EQ(again.begin(), begin);
}

TEST(address_ranges, move) {
    auto first = must(address_range::anywhere(large, 0, page_size));
    std::byte* const begin = first.begin();
    address_range second(std::move(first));
    EXPECT_EQ(second.begin(), begin);
    address_range third = must(address_range::anywhere(large, 0, page_size));
    third = std::move(second);
    EXPECT_EQ(third.begin(), begin);
    EXPECT_FALSE(address_range::exactly(begin, large).ok());
}

TEST_F(mapped_files, that_are_in_the_way_are_named) {
    const auto free = must(address_range::anywhere(8 * large, 0, large));
    must(map_file(free.begin() + 2 * large, page_size, fd_.get(), 0, path_));
    const auto taken = address_range::exactly(free.begin() + 2 * large, large);
    ASSERT_FALSE(taken.ok());
    EXPECT_EQ(taken.error().code, failure_code::address_taken);
    EXPECT_THAT(taken.error().found, HasSubstr(path_));
    EXPECT_THAT(taken.error().found, HasSubstr(fmt::format("{:x}", number(free.begin() + 2 * large))));
    EXPECT_THAT(taken.error().expected, HasSubstr(fmt::format("{:x}", number(free.begin() + 3 * large))));
    const auto anonymous = address_range::exactly(free.begin() + 4 * large, large);
    ASSERT_FALSE(anonymous.ok());
    EXPECT_THAT(anonymous.error().found, HasSubstr("anonymous memory"));
}

TEST(address_ranges, beyond_the_user_space_are_refused) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
    GTEST_SKIP() << "ThreadSanitizer ends the process where mmap is asked for such an address; other presets do this";
#endif
#endif
    auto* const kernel = reinterpret_cast<std::byte*>(std::uintptr_t{0xffff800000000000});
    const auto taken = address_range::exactly(kernel, large);
    ASSERT_FALSE(taken.ok());
    EXPECT_EQ(taken.error().code, failure_code::address_taken);
    const auto huge = address_range::anywhere(std::uint64_t{1} << 60, 0, large);
    ASSERT_FALSE(huge.ok());
    EXPECT_EQ(huge.error().code, failure_code::limit);
}

TEST_F(mapped_files, never_see_what_is_stored) {
    const auto range = must(address_range::anywhere(large, 0, large));
    must(map_file(range.begin(), 2 * page_size, fd_.get(), page_size, path_));
    std::memset(range.begin(), 'm', page_size);
    std::array<char, 1> found{};
    EXPECT_EQ(::pread(fd_.get(), found.data(), 1, page_size), 1);
    EXPECT_EQ(found[0], 'f');
    EXPECT_EQ(range.begin()[0], std::byte{'m'});
    drop_private_pages(range.begin(), 2 * page_size);
    EXPECT_EQ(range.begin()[0], std::byte{'f'});
    EXPECT_FALSE(is_readable(range.begin() + 2 * page_size));
}

/// Regression: on a file system that had been shut down, pages that a commit could not map were gone, and the next load
/// ended the process. A file of sysfs stands in for it: it refuses to be mapped, and mmap asks it last.
TEST(address_ranges, stay_as_they_are_where_a_file_cannot_be_mapped) {
    const persist::descriptor refuses(::open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(refuses.valid());
    const auto range = must(address_range::anywhere(large, 0, large));
    must(map_zeroed(range.begin(), 4 * page_size, false));
    std::memset(range.begin(), 'm', 4 * page_size);
    const auto mapped = map_file(range.begin() + page_size, 2 * page_size, refuses.get(), 0, "refuses");
    ASSERT_FALSE(mapped.ok());
    EXPECT_EQ(mapped.error().os_error, ENODEV);
    ASSERT_TRUE(is_readable(range.begin() + page_size));
    EXPECT_EQ(std::count(range.begin(), range.begin() + 4 * page_size, std::byte{'m'}), 4 * page_size);
}

TEST(address_ranges, are_zeroed_again_where_many_are_dropped_at_once) {
    constexpr std::uint64_t pages = 5000;  // more than one system call takes
    const auto range = must(address_range::anywhere(2 * pages * page_size, 0, large));
    must(map_zeroed(range.begin(), range.size(), false));
    std::vector<std::span<std::byte>> dropped;
    for (std::uint64_t page = 0; page < 2 * pages; ++page) {
        range.begin()[page * page_size] = std::byte{1};
        if (page % 2 == 0) {
            dropped.emplace_back(range.begin() + page * page_size, page_size);
        }
    }
    drop_private_pages(dropped);
    for (std::uint64_t page = 0; page < 2 * pages; ++page) {
        ASSERT_EQ(range.begin()[page * page_size], std::byte{page % 2 == 0 ? std::uint8_t{0} : std::uint8_t{1}})
            << page;
    }
}

TEST(address_ranges, are_zeroed_and_taken_away_again) {
    const auto range = must(address_range::anywhere(2 * large, 0, large));
    for (const bool huge : {false, true}) {
        must(map_zeroed(range.begin(), large, huge));
        EXPECT_EQ(range.begin()[large - 1], std::byte{0});
        range.begin()[large - 1] = std::byte{1};
        EXPECT_TRUE(is_readable(range.begin()));
        EXPECT_FALSE(is_readable(range.begin() + large));
        must(unmap(range.begin(), large));
        EXPECT_FALSE(is_readable(range.begin()));
        EXPECT_FALSE(address_range::exactly(range.begin(), large).ok()) << "the addresses stay reserved";
    }
}

}  // namespace
}  // namespace holdfast::segment
