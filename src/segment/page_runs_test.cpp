#include "segment/format/page_runs.hpp"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace holdfast::segment {
namespace {

using page_set = std::set<std::uint64_t>;

free_runs runs_of(const page_set& of) {
    free_runs runs;
    for (const std::uint64_t page : of) {
        append_run(runs, {page}, {page + 1});
    }
    return runs;
}

page_set pages_of(const free_runs& runs) {
    page_set found;
    base::pages behind{0};
    for (const auto& run : runs) {
        EXPECT_TRUE(found.empty() || behind < run.first) << "sorted, and neighbours are one run";
        EXPECT_NE(run.second.value, 0U);
        behind = end_of(run);
        for (std::uint64_t page = run.first.value; page < behind.value; ++page) {
            found.insert(page);
        }
    }
    return found;
}

TEST(page_runs, are_sets) {
    std::mt19937_64 random(43);
    for (int round = 0; round < 2000; ++round) {
        page_set one;
        page_set other;
        for (std::uint64_t page = 0; page < 24; ++page) {
            if (random() % 3 != 0) {
                one.insert(page);
            }
            if (random() % 3 == 0) {
                other.insert(page);
            }
        }
        page_set all = one;
        all.insert(other.begin(), other.end());
        page_set both;
        page_set first_alone;
        for (const std::uint64_t page : one) {
            (other.contains(page) ? both : first_alone).insert(page);
        }
        ASSERT_EQ(pages_of(either(runs_of(one), runs_of(other))), all);
        ASSERT_EQ(pages_of(common(runs_of(one), runs_of(other))), both);
        ASSERT_EQ(pages_of(without(runs_of(one), runs_of(other))), first_alone);
    }
}

}  // namespace
}  // namespace holdfast::segment
