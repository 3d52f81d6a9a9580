#include "base/result.hpp"

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

namespace holdfast::base {
namespace {

failure sample_failure() {
    failure what;
    what.code = failure_code::corrupt;
    what.path = "heap/superblock";
    return what;
}

static_assert(std::is_move_constructible_v<result<std::unique_ptr<int>>>);
static_assert(!std::is_copy_constructible_v<result<std::unique_ptr<int>>>);
static_assert(!std::is_convertible_v<result<int>, bool>, "only in a condition, never by accident as a number");

TEST(result, holds_a_value) {
    result<std::string> made{std::string{"seven"}};
    ASSERT_TRUE(made.ok());
    EXPECT_TRUE(static_cast<bool>(made));
    EXPECT_EQ(made.value(), "seven");
    EXPECT_EQ(*made, "seven");
    EXPECT_EQ(made->size(), 5U);
}

TEST(result, holds_a_failure) {
    const result<std::string> made{sample_failure()};
    ASSERT_FALSE(made.ok());
    EXPECT_FALSE(static_cast<bool>(made));
    EXPECT_EQ(made.error().code, failure_code::corrupt);
    EXPECT_EQ(made.error().path, "heap/superblock");
}

TEST(result, gives_up_a_value_that_can_only_be_moved) {
    result<std::unique_ptr<int>> made{std::make_unique<int>(7)};
    const std::unique_ptr<int> taken = std::move(made).value();
    ASSERT_NE(taken, nullptr);
    EXPECT_EQ(*taken, 7);
}

TEST(result, value_can_be_changed_in_place) {
    result<int> made{1};
    made.value() = 2;
    EXPECT_EQ(*made, 2);
}

TEST(result, without_a_value_is_success_unless_told_otherwise) {
    const result<void> fine;
    EXPECT_TRUE(fine.ok());
    EXPECT_EQ(fine.error().code, failure_code::none);
    const result<void> broken{sample_failure()};
    EXPECT_FALSE(broken.ok());
    EXPECT_EQ(broken.error().path, "heap/superblock");
}

result<void> step(bool works, int& calls) {
    ++calls;
    if (!works) {
        return sample_failure();
    }
    return {};
}

result<int> two_steps(bool first, bool second, int& calls) {
    HF_TRY(step(first, calls));
    HF_TRY(step(second, calls));
    return calls;
}

TEST(try_macro, goes_on_after_success) {
    int calls = 0;
    const auto made = two_steps(true, true, calls);
    ASSERT_TRUE(made.ok());
    EXPECT_EQ(made.value(), 2);
}

TEST(try_macro, returns_the_first_failure_and_evaluates_once) {
    int calls = 0;
    const auto made = two_steps(false, true, calls);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().path, "heap/superblock");
    EXPECT_EQ(calls, 1);
}

result<std::unique_ptr<int>> make_number(bool works) {
    if (!works) {
        return sample_failure();
    }
    return std::make_unique<int>(3);
}

result<int> sum_of_two(bool first, bool second) {
    HF_TRY_ASSIGN(const auto a, make_number(first));
    HF_TRY_ASSIGN(const auto b, make_number(second));
    return *a + *b;
}

TEST(try_assign_macro, moves_values_out) {
    const auto sum = sum_of_two(true, true);
    ASSERT_TRUE(sum.ok());
    EXPECT_EQ(sum.value(), 6);
}

TEST(try_assign_macro, returns_the_failure_of_any_of_them) {
    EXPECT_EQ(sum_of_two(false, true).error().code, failure_code::corrupt);
    EXPECT_EQ(sum_of_two(true, false).error().code, failure_code::corrupt);
}

#if HOLDFAST_CHECKED
TEST(result_death, value_of_a_failure_is_our_own_bug) {
    result<int> made{sample_failure()};
    EXPECT_DEATH(static_cast<void>(made.value()), "broken assertion: ok\\(\\)");
}

TEST(result_death, failure_of_success_is_our_own_bug) {
    result<int> made{1};
    EXPECT_DEATH(static_cast<void>(made.error()), "broken assertion: !ok\\(\\)");
}
#endif

}  // namespace
}  // namespace holdfast::base
