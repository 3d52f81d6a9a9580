// The arguments of programs, as programs declare them: what is read, what is refused, and what the help says.
#include "command_line/command_line.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast_programs {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class command_line_test : public testing::Test {
protected:
    /// Parses, and keeps what is printed. No status: the program goes on.
    std::optional<int> parse(const std::vector<std::string>& arguments) {
        std::vector<const char*> words{"program"};
        for (const std::string& one : arguments) {
            words.push_back(one.c_str());
        }
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        const auto status = line_.parse(static_cast<int>(words.size()), words.data());
        out_ = testing::internal::GetCapturedStdout();
        error_ = testing::internal::GetCapturedStderr();
        return status;
    }

    /// The program goes on, and has printed nothing.
    bool accepts(const std::vector<std::string>& arguments) {
        return !parse(arguments) && out_.empty() && error_.empty();
    }

    /// The program ends with a status that says so, and names what is wrong on standard error.
    bool refuses(const std::vector<std::string>& arguments, const std::string& named) {
        const auto status = parse(arguments);
        return status && *status != 0 && error_.find(named) != std::string::npos;
    }

    std::string help(const std::vector<std::string>& arguments = {"--help"}) {
        EXPECT_EQ(parse(arguments), 0);
        EXPECT_THAT(error_, IsEmpty());
        return out_;
    }

    command_line line_{"What it does", "program"};
    std::string out_;
    std::string error_;
};

TEST_F(command_line_test, values_of_every_type_are_read) {
    std::string text;
    std::filesystem::path path;
    unsigned small = 0;
    std::uint64_t large = 0;
    double real = 0;
    bool flag = false;
    bool untouched = false;
    line_.add_option("-t,--text", text, "Text");
    line_.add_option("PATH", path, "By its position");
    line_.add_option("--small", small, "Small");
    line_.add_option("--large", large, "Large");
    line_.add_option("--real", real, "Real");
    line_.add_flag("--flag", flag, "Flag");
    line_.add_flag("--untouched", untouched, "Not given");
    ASSERT_TRUE(
        accepts({"-t", "a b", "--small=7", "--large", "18446744073709551615", "--real", "0.25", "--flag", "x/y"}));
    EXPECT_EQ(text, "a b");
    EXPECT_EQ(path, std::filesystem::path("x/y"));
    EXPECT_EQ(small, 7U);
    EXPECT_EQ(large, UINT64_MAX);
    EXPECT_EQ(real, 0.25);
    EXPECT_TRUE(flag);
    EXPECT_FALSE(untouched);
}

TEST_F(command_line_test, what_is_not_given_keeps_its_value) {
    std::string text = "before";
    std::vector<unsigned> numbers{1, 2};
    line_.add_option("--text", text, "Text");
    line_.add_option("--numbers", numbers, "Numbers");
    ASSERT_TRUE(accepts({}));
    EXPECT_EQ(text, "before");
    EXPECT_THAT(numbers, ElementsAre(1, 2));
}

TEST_F(command_line_test, what_is_no_number_or_no_option_is_refused) {
    unsigned number = 0;
    line_.add_option("--number", number, "Number");
    EXPECT_TRUE(refuses({"--number", "x"}, "--number"));
    EXPECT_TRUE(refuses({"--number", "4294967296"}, "--number"));
    EXPECT_TRUE(refuses({"--numbr", "1"}, "--numbr"));
}

TEST_F(command_line_test, lists_are_given_at_once_or_with_a_delimiter) {
    std::vector<std::string> texts;
    std::vector<unsigned> numbers;
    std::vector<std::uint64_t> sizes;
    line_.add_option("--texts", texts, "Texts").delimiter(',').one_of({"a", "b", "c"});
    line_.add_option("--numbers", numbers, "Numbers");
    line_.add_option("--sizes", sizes, "Sizes").delimiter(',').size(kilobyte::of_1000);
    ASSERT_TRUE(accepts({"--texts", "a,c", "--numbers", "3", "4", "--sizes", "2k,5"}));
    EXPECT_THAT(texts, ElementsAre("a", "c"));
    EXPECT_THAT(numbers, ElementsAre(3, 4));
    EXPECT_THAT(sizes, ElementsAre(2'000, 5));
    EXPECT_TRUE(refuses({"--texts", "a,d"}, "d not in {a,b,c}"));
}

TEST_F(command_line_test, ranges_have_both_ends) {
    unsigned whole = 0;
    std::uint64_t large = 0;
    double real = 0;
    std::uint64_t count = 0;
    line_.add_option("--whole", whole, "Whole").range(4U, 30U);
    line_.add_option("--large", large, "Large").range(std::uint64_t{1} << 33U, std::uint64_t{1} << 40U);
    line_.add_option("--real", real, "Real").range(0.1, 0.9);
    line_.add_option("--count", count, "Count").positive();
    for (const char* const good : {"4", "30"}) {
        EXPECT_TRUE(accepts({"--whole", good}));
    }
    for (const char* const bad : {"3", "31", "-4"}) {
        EXPECT_TRUE(refuses({"--whole", bad}, "not in range 4 to 30")) << bad;
    }
    EXPECT_TRUE(accepts({"--large", "8589934592"}));
    EXPECT_TRUE(refuses({"--large", "8589934591"}, "not in range"));
    EXPECT_TRUE(accepts({"--real", "0.9"}));
    EXPECT_TRUE(refuses({"--real", "0.95"}, "not in range"));
    EXPECT_TRUE(accepts({"--count", "1"}));
    EXPECT_TRUE(refuses({"--count", "0"}, "--count"));
}

TEST_F(command_line_test, sizes_have_units) {
    std::uint64_t binary = 0;
    std::uint64_t decimal = 0;
    line_.add_option("--binary", binary, "Binary")
        .size(kilobyte::of_1024)
        .range(std::uint64_t{4096}, std::uint64_t{1} << 30U);
    line_.add_option("--decimal", decimal, "Decimal").size(kilobyte::of_1000);
    ASSERT_TRUE(accepts({"--binary", "64K", "--decimal", "10G"}));
    EXPECT_EQ(binary, 64U << 10U);
    EXPECT_EQ(decimal, 10'000'000'000U);
    ASSERT_TRUE(accepts({"--binary", "2 MiB", "--decimal", "3Ki"}));
    EXPECT_EQ(binary, 2U << 20U);
    EXPECT_EQ(decimal, 3U << 10U);
    EXPECT_TRUE(refuses({"--binary", "2K"}, "not in range")) << "the range is of bytes";
    EXPECT_TRUE(refuses({"--decimal", "1X"}, "unit not recognized"));
}

TEST_F(command_line_test, options_need_and_exclude_others) {
    bool precise = false;
    bool strict = false;
    bool quick = false;
    const option first = line_.add_flag("--precise", precise, "First");
    line_.add_flag("--strict", strict, "Second").needs(first);
    line_.add_flag("--quick", quick, "Third").excludes(line_.find_option("--precise"));
    EXPECT_TRUE(accepts({"--precise", "--strict"}));
    EXPECT_TRUE(accepts({"--quick"}));
    EXPECT_TRUE(refuses({"--strict"}, "--strict requires --precise"));
    EXPECT_TRUE(refuses({"--quick", "--precise"}, "--precise excludes --quick"));
}

TEST_F(command_line_test, required_options_are_asked_for) {
    std::string heap;
    line_.add_option("HEAP", heap, "The heap's directory").required();
    EXPECT_TRUE(refuses({}, "HEAP is required"));
    EXPECT_TRUE(accepts({"a.hf"}));
}

TEST_F(command_line_test, exactly_one_command_is_given) {
    bool json = false;
    line_.require_command();
    const command list = line_.add_command("list", "Lists");
    const command check = line_.add_command("check", "Checks");
    check.add_flag("--json", json, "JSON");
    check.footer("More about checks.");
    line_.footer("Exit status: 0.");
    EXPECT_TRUE(refuses({}, "subcommand is required"));
    EXPECT_TRUE(refuses({"nonsense"}, "nonsense"));
    EXPECT_TRUE(refuses({"list", "--json"}, "--json"));
    ASSERT_TRUE(accepts({"check", "--json"}));
    EXPECT_TRUE(check.parsed());
    EXPECT_FALSE(list.parsed());
    EXPECT_TRUE(json);
    EXPECT_THAT(help(), AllOf(HasSubstr("Lists"), HasSubstr("Checks"), HasSubstr("Exit status: 0.")));
    EXPECT_THAT(help({"check", "--help"}), AllOf(HasSubstr("--json"), HasSubstr("More about checks.")));
}

TEST_F(command_line_test, the_help_shows_what_the_program_says_of_an_option) {
    unsigned shown = 11;
    unsigned silent = 22;
    std::vector<std::uint64_t> several{33, 44};
    std::string own;
    line_.add_option("--shown", shown, "A number").show_default().range(1U, 99U);
    line_.add_option("--silent", silent, "Another");
    line_.add_option("--several", several, "Numbers").show_default();
    line_.add_option("--own", own, "Of the program itself").internal();
    const std::string text = help();
    EXPECT_THAT(text, HasSubstr("What it does\nUsage: program [OPTIONS]\n"));
    EXPECT_THAT(text, HasSubstr("--shown UINT:UINT in [1 - 99]=11"));
    EXPECT_THAT(text, AllOf(HasSubstr("--silent UINT"), Not(HasSubstr("22"))));
    EXPECT_THAT(text, HasSubstr("[33,44]"));
    EXPECT_LT(text.find("\nInternal:\n"), text.find("--own")) << "apart from what users give";
    EXPECT_LT(text.find("--shown"), text.find("\nInternal:\n"));
}

TEST_F(command_line_test, the_version_is_printed) {
    line_.version_flag("--version", "program 1.2");
    EXPECT_EQ(parse({"--version"}), 0);
    EXPECT_EQ(out_, "program 1.2\n");
}

}  // namespace
}  // namespace holdfast_programs
