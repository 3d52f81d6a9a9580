// Which combinations the simulator visits.
#include "simulator/choices.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace holdfast::simulator {
namespace {

using combination = std::vector<outcome>;

std::set<combination> all_of(const choice_space& space, const choice_limits& limits, std::uint64_t seed = 1) {
    std::set<combination> seen;
    for_each_choice(space, limits, seed, [&](std::span<const outcome> chosen) {
        seen.emplace(chosen.begin(), chosen.end());
        return true;
    });
    return seen;
}

TEST(choices, NothingToChooseIsOneCombination) { EXPECT_EQ(all_of({}, {}), (std::set<combination>{{}})); }

TEST(choices, SmallSpacesAreVisitedWhole) {
    const choice_space space{{2, 3, 2}, {}};
    const auto seen = all_of(space, {});
    EXPECT_EQ(seen.size(), 12U);
    EXPECT_TRUE(seen.contains({1, 2, 1}));
    EXPECT_TRUE(seen.contains({0, 1, 0}));
}

TEST(choices, EveryCombinationOfALimitIsStillVisited) {
    const choice_space twelve{std::vector<outcome>(12, 2), {}};
    EXPECT_EQ(all_of(twelve, {}).size(), 4096U);
}

TEST(choices, BigSpacesShowTheTellingOnes) {
    const std::size_t points = 40;
    const choice_space space{std::vector<outcome>(points, 2), {0, 10, 25}};
    const auto seen = all_of(space, {});
    EXPECT_TRUE(seen.contains(combination(points, 0)));
    EXPECT_TRUE(seen.contains(combination(points, 1)));
    for (std::size_t i = 0; i < points; ++i) {
        combination alone(points, 0);
        combination missing(points, 1);
        combination prefix(points, 0);
        alone[i] = 1;
        missing[i] = 0;
        std::fill_n(prefix.begin(), i, outcome{1});
        EXPECT_TRUE(seen.contains(alone)) << i;
        EXPECT_TRUE(seen.contains(missing)) << i;
        EXPECT_TRUE(seen.contains(prefix)) << i;
    }
    combination second_operation(points, 0);
    std::fill(second_operation.begin() + 10, second_operation.begin() + 25, outcome{1});
    EXPECT_TRUE(seen.contains(second_operation));
    EXPECT_GT(seen.size(), 200U);
}

TEST(choices, HugeSpacesStayWithinTheLimits) {
    const choice_space space{std::vector<outcome>(5000, 2), {}};
    choice_limits limits;
    limits.singles = 10;
    limits.prefixes = 10;
    limits.samples = 10;
    EXPECT_LE(all_of(space, limits).size(), 2U + 20U + 10U + 10U);
}

TEST(choices, PrefixesOfALineAreChosenOneByOne) {
    const choice_space space{std::vector<outcome>(8, 4), {}};
    const auto seen = all_of(space, {});
    for (outcome value = 0; value < 4; ++value) {
        combination one(8, 0);
        one[3] = value;
        EXPECT_TRUE(seen.contains(one)) << value;
    }
}

TEST(choices, TheSameSeedShowsTheSameCombinations) {
    const choice_space space{std::vector<outcome>(30, 2), {0, 15}};
    EXPECT_EQ(all_of(space, {}, 7), all_of(space, {}, 7));
    EXPECT_NE(all_of(space, {}, 7), all_of(space, {}, 8));
}

TEST(choices, AVisitCanStop) {
    int visits = 0;
    EXPECT_FALSE(for_each_choice({{2, 2, 2}, {}}, {}, 1, [&](auto) { return ++visits < 3; }));
    EXPECT_EQ(visits, 3);
}

}  // namespace
}  // namespace holdfast::simulator
