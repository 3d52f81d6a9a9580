#include "persist/backing.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_test_support.hpp"

namespace holdfast::persist {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Larger than any folio of the page cache, so that a write fills no more than its part.
constexpr std::uint64_t part = std::uint64_t{256} << 10U;

/// On disk and, where the machine can, in memory.
class backing_test : public testing::TestWithParam<const char*> {
protected:
    void SetUp() override {
        auto made = posix_storage().create(directory_ + "/file", "test.create");
        ASSERT_TRUE(made.ok()) << made.error().message();
        file_ = std::move(made).value();
    }

    void write(std::uint64_t index) const {
        const std::vector<std::byte> content(part, std::byte{7});
        ASSERT_TRUE(file_->write_at(index * part, content, "test.write").ok());
    }
    [[nodiscard]] file_backing backing() const {
        auto found = backing_of(*file_);
        EXPECT_TRUE(found.ok()) << found.error().message();
        return found.ok() ? std::move(found).value() : file_backing{};
    }
    static file_range parts(std::uint64_t begin, std::uint64_t end) { return {begin * part, end * part}; }

    base::scratch_directory scratch_{std::string(GetParam()) == "memory" ? base::memory_directory()
                                                                         : base::disk_directory()};
    std::string directory_ = scratch_.path();
    std::unique_ptr<file> file_;
};

INSTANTIATE_TEST_SUITE_P(everywhere, backing_test, testing::Values("disk", "memory"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(backing_test, knows_what_a_mapping_asks_the_file_system_for) {
    ASSERT_TRUE(file_->resize(part, "test.resize").ok());
    void* const mapped = ::mmap(nullptr, part, PROT_READ, MAP_PRIVATE, file_->native_handle(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
    EXPECT_EQ(*static_cast<const volatile char*>(mapped), 0);
    ::munmap(mapped, part);
    const bool takes_space = file_->charged().value() != 0;
    EXPECT_TRUE(reading_takes_space(*file_).value() || !takes_space);
    EXPECT_FALSE(stores_fill_folios(*file_).value() && takes_space);
    EXPECT_TRUE(takes_space || !directory_.starts_with("/dev/shm"));
}

TEST_P(backing_test, of_an_empty_file_and_of_one_hole_is_nothing) {
    EXPECT_THAT(backing().ranges, IsEmpty());
    ASSERT_TRUE(file_->resize(100 * part, "test.resize").ok());
    EXPECT_THAT(backing().ranges, IsEmpty());
    EXPECT_TRUE(backing().exact);
}

TEST_P(backing_test, is_what_was_written_between_the_holes) {
    ASSERT_TRUE(file_->resize(100 * part, "test.resize").ok());
    write(3);
    write(4);
    write(90);
    EXPECT_THAT(backing().ranges, ElementsAre(parts(3, 5), parts(90, 91)));
    EXPECT_TRUE(backing().exact);
}

TEST_P(backing_test, ends_with_the_file) {
    write(0);
    ASSERT_TRUE(file_->write_at(part, std::vector<std::byte>(100, std::byte{1}), "test.write").ok());
    EXPECT_THAT(backing().ranges, ElementsAre(file_range{0, part + 100}));
}

TEST_P(backing_test, of_reserved_space_is_whole_or_said_to_be_the_least) {
    ASSERT_TRUE(file_->allocate(0, 16 * part, "test.allocate").ok());
    EXPECT_THAT(backing().ranges, ElementsAre(parts(0, 16))) << "all of it is charged: no doubt";
    ASSERT_TRUE(file_->resize(32 * part, "test.resize").ok());
    write(4);
    write(20);
    const file_backing found = backing();
    if (found.exact) {
        EXPECT_THAT(found.ranges, ElementsAre(parts(0, 16), parts(20, 21)));
    } else {
        EXPECT_THAT(found.ranges, ElementsAre(parts(4, 5), parts(20, 21))) << "what is known";
    }
}

TEST_P(backing_test, has_the_holes_that_were_punched) {
    for (std::uint64_t i = 0; i < 8; ++i) {
        write(i);
    }
    ASSERT_TRUE(file_->sync("test.sync").ok());
    ASSERT_TRUE(file_->punch_hole(2 * part, 3 * part, "test.punch").ok());
    EXPECT_THAT(backing().ranges, ElementsAre(parts(0, 2), parts(5, 8)));
    EXPECT_TRUE(backing().exact);
}

TEST_P(backing_test, of_more_extents_than_one_question_returns_is_whole) {
    constexpr std::uint64_t count = 1300;
    const std::vector<std::byte> content(4096, std::byte{7});
    for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(file_->write_at(i * part, content, "test.write").ok());
    }
    const std::vector<file_range> ranges = backing().ranges;
    ASSERT_EQ(ranges.size(), count);
    for (std::uint64_t i = 0; i < count; ++i) {
        EXPECT_EQ(ranges[i].begin, i * part);
        EXPECT_GE(ranges[i].end, i * part + 4096);
    }
}

}  // namespace
}  // namespace holdfast::persist
