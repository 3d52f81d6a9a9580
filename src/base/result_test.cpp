#include "base/result.hpp"

#include <cerrno>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::base {

namespace {

constexpr auto last_code = failure_code::unsupported;

TEST(failure_code, every_code_has_its_own_name) {
    std::set<std::string_view> names;
    for (std::uint32_t code = 0; code <= static_cast<std::uint32_t>(last_code); ++code) {
        const std::string_view name = to_string(static_cast<failure_code>(code));
        EXPECT_NE(name, "unknown") << code;
        EXPECT_TRUE(names.insert(name).second) << name;
    }
    EXPECT_EQ(to_string(failure_code::none), "none");
    EXPECT_EQ(to_string(failure_code::io), "io");
    EXPECT_EQ(to_string(last_code), "unsupported");
}

TEST(failure_code, a_code_of_a_newer_library_is_unknown) {
    EXPECT_EQ(to_string(static_cast<failure_code>(static_cast<std::uint32_t>(last_code) + 1)), "unknown");
    EXPECT_EQ(to_string(static_cast<failure_code>(UINT32_MAX)), "unknown");
}

TEST(failure_message, names_path_field_found_expected_and_hint_in_this_order) {
    failure what;
    what.code = failure_code::corrupt;
    what.path = "graph.hf/superblock";
    what.field = "checksum of copy 1";
    what.found = "0x12";
    what.expected = "0x34";
    what.hint = "copy 2 is good";
    EXPECT_EQ(what.message(),
              "corrupt: graph.hf/superblock: checksum of copy 1: found 0x12, expected 0x34: copy 2 is good");
}

TEST(failure_message, leaves_out_what_is_not_known) {
    failure what;
    what.code = failure_code::limit;
    EXPECT_EQ(what.message(), "limit");
    what.expected = "at most 512";
    EXPECT_EQ(what.message(), "limit: expected at most 512");
    what.path = "graph.hf";
    EXPECT_EQ(what.message(), "limit: graph.hf: expected at most 512");
}

TEST(os_failure, carries_operation_path_and_errno) {
    const failure what = os_failure(EIO, "fdatasync", "graph.hf/journal");
    EXPECT_EQ(what.code, failure_code::io);
    EXPECT_EQ(what.field, "fdatasync");
    EXPECT_EQ(what.path, "graph.hf/journal");
    EXPECT_EQ(what.os_error, EIO);
    EXPECT_EQ(what.message(), "io: graph.hf/journal: fdatasync: found Input/output error, expected success");
}

TEST(os_failure, keeps_the_errno_in_the_message_where_the_caller_knows_more) {
    failure what = os_failure(ENOENT, "open", "graph.hf/journal");
    what.found = "nothing";
    what.expected = "the journal";
    EXPECT_EQ(what.message(),
              "not_found: graph.hf/journal: open: found nothing, expected the journal: No such file or directory");
}

TEST(os_failure, says_what_a_caller_can_act_upon) {
    const auto code_of = [](int os_error) { return os_failure(os_error, "open", "x").code; };
    EXPECT_EQ(code_of(ENOSPC), failure_code::no_space);
    EXPECT_EQ(code_of(EDQUOT), failure_code::no_space);
    EXPECT_EQ(code_of(EACCES), failure_code::permission);
    EXPECT_EQ(code_of(EPERM), failure_code::permission);
    EXPECT_EQ(code_of(EROFS), failure_code::read_only);
    EXPECT_EQ(code_of(ENOENT), failure_code::not_found);
    EXPECT_EQ(code_of(ENOTDIR), failure_code::not_found);
    EXPECT_EQ(code_of(EEXIST), failure_code::already_exists);
    EXPECT_EQ(code_of(ENOMEM), failure_code::out_of_memory);
    EXPECT_EQ(code_of(EMFILE), failure_code::limit);
    EXPECT_EQ(code_of(ENFILE), failure_code::limit);
    EXPECT_EQ(code_of(EOPNOTSUPP), failure_code::unsupported);
    EXPECT_EQ(code_of(ENOSYS), failure_code::unsupported);
    EXPECT_EQ(code_of(EINVAL), failure_code::io);
}

}  // namespace

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
