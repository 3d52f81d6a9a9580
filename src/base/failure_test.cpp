#include "base/failure.hpp"

#include <cerrno>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

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
}  // namespace holdfast::base
