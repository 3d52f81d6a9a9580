// The model of caches and media: what may be lost, what may not, and that a toy log without a flush or a fence is
// caught.
#include "simulator/simulated_memory.hpp"

#include <array>
#include <set>

#include <gtest/gtest.h>

#include "base/checksum.hpp"
#include "persist/mutant.hpp"
#include "simulator/crash_explorer.hpp"

namespace holdfast::simulator {
namespace {

/// The first words of all crash images.
template <std::size_t Words>
std::set<std::array<std::uint64_t, Words>> images(const simulated_memory& memory) {
    std::set<std::array<std::uint64_t, Words>> seen;
    memory.for_each_crash_image({}, 1, [&](const simulated_memory::image& left) {
        std::array<std::uint64_t, Words> words{};
        std::copy_n(left.words.begin(), Words, words.begin());
        seen.insert(words);
        return true;
    });
    return seen;
}

using two = std::array<std::uint64_t, 2>;

TEST(simulated_memory, StoresToOneLinePersistInProgramOrder) {
    simulated_memory memory(128);
    simulated_domain domain(memory);
    domain.store(memory.words()[1], 7, "test.store");
    domain.store(memory.words()[0], 8, "test.store");
    EXPECT_EQ(images<2>(memory), (std::set<two>{{0, 0}, {0, 7}, {8, 7}}));
    EXPECT_EQ(memory.words()[0], 8U);
}

TEST(simulated_memory, StoresToTwoLinesHaveNoOrder) {
    simulated_memory memory(128);
    simulated_domain domain(memory);
    domain.store(memory.words()[0], 7, "test.store");
    domain.store(memory.words()[8], 8, "test.store");
    const auto seen = images<9>(memory);
    EXPECT_EQ(seen.size(), 4U);
    EXPECT_TRUE(seen.contains({0, 0, 0, 0, 0, 0, 0, 0, 8}));
}

TEST(simulated_memory, CopiedWordsPersistInAnySubset) {
    for (const bool nontemporal : {true, false}) {
        simulated_memory memory(128);
        simulated_domain domain(memory);
        const two source{7, 8};
        if (nontemporal) {
            domain.copy_nontemporal(memory.words().data(), source.data(), sizeof source, "test.copy");
        } else {
            domain.copy(memory.words().data(), source.data(), sizeof source, "test.copy");
        }
        EXPECT_EQ(images<2>(memory), (std::set<two>{{0, 0}, {7, 0}, {0, 8}, {7, 8}}));
        domain.fence("test.fence");
        EXPECT_EQ(images<2>(memory).size(), nontemporal ? 1U : 4U)
            << "a fence alone completes non-temporal stores only";
        domain.flush(memory.words().data(), sizeof source, "test.flush");
        domain.fence("test.fence");
        EXPECT_EQ(images<2>(memory), (std::set<two>{{7, 8}}));
    }
}

TEST(simulated_memory, AFlushIsNothingWithoutItsFence) {
    simulated_memory memory(64);
    simulated_domain domain(memory);
    domain.store(memory.words()[0], 7, "test.store");
    domain.flush(memory.words().data(), 8, "test.flush");
    EXPECT_EQ(images<2>(memory).size(), 2U);
    domain.store(memory.words()[1], 8, "test.store");
    domain.fence("test.fence");
    EXPECT_EQ(images<2>(memory), (std::set<two>{{7, 0}, {7, 8}})) << "what was stored after the flush is not covered";
}

TEST(simulated_memory, AFenceOfAnotherThreadDrainsNothing) {
    simulated_memory memory(64);
    simulated_domain first(memory, 0);
    simulated_domain second(memory, 1);
    first.store(memory.words()[0], 7, "test.store");
    first.flush(memory.words().data(), 8, "test.flush");
    second.fence("test.fence");
    EXPECT_EQ(images<2>(memory).size(), 2U);
    first.fence("test.fence");
    EXPECT_EQ(images<2>(memory).size(), 1U);
}

TEST(simulated_memory, AFlushCoversWhatOtherThreadsStored) {
    simulated_memory memory(64);
    simulated_domain first(memory, 0);
    simulated_domain second(memory, 1);
    first.store(memory.words()[0], 7, "test.store");
    second.flush(memory.words().data(), 8, "test.flush");
    second.fence("test.fence");
    EXPECT_EQ(images<2>(memory), (std::set<two>{{7, 0}}));
}

TEST(simulated_memory, NontemporalWordsOfAnotherThreadAreNotCoveredByAFlush) {
    simulated_memory memory(64);
    simulated_domain first(memory, 0);
    simulated_domain second(memory, 1);
    const std::uint64_t value = 7;
    first.copy_nontemporal(memory.words().data(), &value, sizeof value, "test.copy");
    second.flush(memory.words().data(), 8, "test.flush");
    second.fence("test.fence");
    EXPECT_EQ(images<2>(memory).size(), 2U);
}

TEST(simulated_memory, AFlushOfAnEarlierTimeCountsItsOwnStoresOnly) {
    simulated_memory memory(64);
    simulated_domain first(memory, 0);
    simulated_domain second(memory, 1);
    first.store(memory.words()[0], 1, "test.store");
    first.flush(memory.words().data(), 8, "test.flush");
    second.flush(memory.words().data(), 8, "test.flush");
    second.fence(
        "test.fence");  // settles the store; the flush of the first thread must not reach further because of that
    first.store(memory.words()[0], 2, "test.store");
    first.fence("test.fence");
    EXPECT_EQ(images<2>(memory), (std::set<two>{{1, 0}, {2, 0}}));
}

// A toy log: a record of one line with a checksum, written around the cache; then a counter in another line. State n: n
// records.

struct log_options {
    bool record_fence = true;
    bool counter_flush = true;
    bool counter_fence = true;
};

constexpr std::uint64_t records = 3;
using record = std::array<std::uint64_t, 8>;

record make_record(std::uint64_t number) {
    record one{number, number + 10, number + 20, number + 30, number + 40, number + 50, number + 60};
    one[7] = base::checksum64(std::as_bytes(std::span{one}.first(7)));
    return one;
}

explore_report explore_log(const log_options& options) {
    simulated_memory machine((records + 2) * 64);
    return crash_explorer<simulated_memory>(explore_options{})
        .run(
            machine,
            [&](simulated_memory& memory, auto& marks) {
                simulated_domain domain(memory);
                for (std::uint64_t number = 1; number <= records; ++number) {
                    marks.begins(number);
                    const record one = make_record(number);
                    domain.copy_nontemporal(&memory.words()[number * 8], one.data(), sizeof one, "log.record.write");
                    if (options.record_fence) {
                        domain.fence("log.record.fence");
                    }
                    domain.store(memory.words()[0], number, "log.counter.store");
                    if (options.counter_flush) {
                        domain.flush(&memory.words()[0], 8, "log.counter.flush");
                    }
                    if (options.counter_fence) {
                        domain.fence("log.counter.fence");
                    }
                    marks.returned(number);
                }
                return std::string{};
            },
            [](auto& trial) {
                const auto words = trial.device().words();
                const std::uint64_t count = words[0];
                trial.recovered(count);
                for (std::uint64_t number = 1; number <= count && count <= records; ++number) {
                    const record expected = make_record(number);
                    if (!std::equal(expected.begin(), expected.end(), &words[number * 8])) {
                        return "record " + std::to_string(number) + " is torn";
                    }
                }
                return trial.expected().allows(count) ? std::string{} : "count " + std::to_string(count);
            });
}

TEST(simulated_memory, ACorrectLogHasNoViolation) {
    const auto report = explore_log({});
    EXPECT_TRUE(report.violations.empty()) << report.violations.front();
    EXPECT_GT(report.images(), 3 * 256U) << "the eight words of each record, in every subset";
}

TEST(simulated_memory, EveryStepThatIsMissingIsFound) {
    EXPECT_FALSE(explore_log({.record_fence = false}).violations.empty());
    EXPECT_FALSE(explore_log({.counter_flush = false}).violations.empty());
    EXPECT_FALSE(explore_log({.counter_fence = false}).violations.empty());
}

#if HOLDFAST_MUTANTS
TEST(mutants, EveryFlushFenceAndStoreOfTheLogIsNeeded) {
    persist::forget_sites();
    EXPECT_TRUE(explore_log({}).violations.empty());
    int sites = 0;
    for (const auto& one : persist::seen_sites()) {
        const persist::mutant_selection mutant{one.name};
        EXPECT_FALSE(explore_log({}).violations.empty()) << one.name;
        ++sites;
    }
    EXPECT_EQ(sites, 5);
}
#endif

}  // namespace
}  // namespace holdfast::simulator
