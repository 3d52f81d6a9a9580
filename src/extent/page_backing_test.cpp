#include "extent/page_backing.hpp"

#include <gtest/gtest.h>

namespace holdfast::extent {
namespace {

class page_backing_test : public testing::Test {
protected:
    page_backing_test() { EXPECT_TRUE(backing_.reset({1000}).ok()); }

    page_backing backing_;
};

TEST_F(page_backing_test, knows_nothing_at_first) {
    EXPECT_FALSE(backing_.all_backed({0}, {1}));
    EXPECT_EQ(backing_.holes({0}, {1000}).value, 0U);
    EXPECT_EQ(backing_.not_holes({0}, {1000}).value, 1000U);
}

TEST_F(page_backing_test, a_page_is_backed_or_a_hole_and_not_both) {
    backing_.set_backed({100}, {200});
    backing_.set_hole({150}, {50});
    EXPECT_TRUE(backing_.all_backed({100}, {50}));
    EXPECT_FALSE(backing_.all_backed({100}, {51}));
    EXPECT_EQ(backing_.holes({100}, {200}).value, 50U);
    EXPECT_EQ(backing_.last_not_backed({299}).value, 199U);
    EXPECT_EQ(backing_.last_not_hole({199}).value, 149U);
    backing_.set_backed({150}, {50});
    EXPECT_TRUE(backing_.all_backed({100}, {200}));
    EXPECT_EQ(backing_.holes({0}, {1000}).value, 0U);
}

TEST_F(page_backing_test, forgets_one_of_them_and_keeps_the_other) {
    backing_.set_backed({0}, {64});
    backing_.set_hole({64}, {64});
    backing_.forget_backed({32}, {64});
    EXPECT_FALSE(backing_.all_backed({32}, {1}));
    EXPECT_EQ(backing_.holes({0}, {128}).value, 64U);
    backing_.forget_holes({0}, {96});
    EXPECT_TRUE(backing_.all_backed({0}, {32}));
    EXPECT_EQ(backing_.not_holes({0}, {128}).value, 96U);
}

}  // namespace
}  // namespace holdfast::extent
