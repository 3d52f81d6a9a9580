#include "segment/commit/promised_space.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

using base::pages;
using testing::IsEmpty;
using testing::SizeIs;

class promised_space_test : public testing::Test {
protected:
    base::result<void> add(std::uint64_t start, std::uint64_t length) {
        return promised_.add(persist::posix_storage(), {scratch_.path()}, {start}, {length});
    }

    test_directory scratch_;
    promised_space promised_;
};

TEST_F(promised_space_test, runs_are_united_and_end_with_their_segment) {
    must(add(100, 10));
    must(add(110, 90));
    must(add(500, 8));
    const std::vector<page_run> runs = promised_.runs({1000}, 128);
    ASSERT_THAT(runs, SizeIs(3));
    EXPECT_EQ(runs[0].file, 0U);
    EXPECT_EQ(runs[0].page, 100U);
    EXPECT_EQ(runs[0].count, 28U);
    EXPECT_EQ(runs[1].file, 1U);
    EXPECT_EQ(runs[1].page, 0U);
    EXPECT_EQ(runs[1].count, 72U);
    EXPECT_EQ(runs[2].file, 3U);
    EXPECT_EQ(runs[2].page, 500U - 3 * 128);
    EXPECT_EQ(runs[2].count, 8U);
}

TEST_F(promised_space_test, what_lies_beyond_the_end_of_the_heap_is_not_reserved) {
    must(add(100, 100));
    must(add(300, 100));
    const std::vector<page_run> runs = promised_.runs({150}, 1024);
    ASSERT_THAT(runs, SizeIs(1));
    EXPECT_EQ(runs[0].count, 50U);
}

TEST_F(promised_space_test, more_than_there_is_room_for_is_refused_and_changes_nothing) {
    must(add(0, 1));
    const auto refused = add(1, std::uint64_t{1} << 50U);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, base::failure_code::no_space);
    EXPECT_THAT(promised_.runs({1000}, 1024), SizeIs(1));
    promised_.clear();
    EXPECT_THAT(promised_.runs({1000}, 1024), IsEmpty());
}

}  // namespace
}  // namespace holdfast::segment
