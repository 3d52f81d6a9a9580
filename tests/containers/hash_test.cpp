#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>
#include <holdfast/hash.hpp>

namespace holdfast {
namespace {

// Tables on media depend on these values: a change of any of them breaks every heap with a hash table.
TEST(hashes, never_change) {
    EXPECT_EQ(hash<int>{}(42), 42U);
    EXPECT_EQ(hash<std::string_view>{}(""), 0x2024C95DCD9B21B5U);
    EXPECT_EQ(hash<std::string_view>{}("a"), 0x8114A4E09760F74AU);
    EXPECT_EQ(hash<std::string_view>{}("abc"), 0xB0769C8B6B99DC03U);
    EXPECT_EQ(hash<std::string_view>{}("seven77"), 0x88232BC5E07867BEU);
    EXPECT_EQ(hash<std::string_view>{}("eight888"), 0x53FABDB48157BF98U);
    EXPECT_EQ(hash<std::string_view>{}("fifteen letters"), 0x1E521F8DF4FA9D97U);
    EXPECT_EQ(hash<std::string_view>{}("a text of more than thirty-two bytes"), 0x8B134ADF0BFDE39BU);
    EXPECT_EQ(hash<double>{}(1.5), 0xE2655B0C7D8DA8DAU);
    EXPECT_EQ((hash<std::pair<int, std::string>>{}({1, "one"})), 0x00A8DC55CF4185FEU);
    EXPECT_EQ((hash<std::tuple<int, int, int>>{}({1, 2, 3})), 0xBC3E564A55A5B497U);
    EXPECT_EQ(hash<std::optional<int>>{}(7), 0xD5211E7792CBDBFFU);
}

TEST(hashes, of_equal_values_are_equal) {
    EXPECT_EQ(hash<double>{}(0.0), hash<double>{}(-0.0));
    EXPECT_EQ(hash<std::string>{}("text"), hash<std::string_view>{}("text"));
    EXPECT_EQ((hash<std::pair<int, int>>{}({1, 2})), (hash<std::tuple<int, int>>{}({1, 2})));
}

TEST(hashes, of_short_strings_differ) {
    for (std::size_t length = 1; length < 40; ++length) {
        std::string text(length, 'a');
        const std::size_t before = hash<std::string>{}(text);
        for (std::size_t i = 0; i < length; ++i) {
            text[i] = 'b';
            EXPECT_NE(hash<std::string>{}(text), before) << length << ' ' << i;
            text[i] = 'a';
        }
        EXPECT_NE(hash<std::string>{}(text + 'a'), before);
        EXPECT_NE(hash<std::string>{}(text + '\0'), before);
    }
}

}  // namespace
}  // namespace holdfast
