// Transactions over a heap and stores in it, with the power cut at every operation: heap_store_explorer.hpp says what
// is asked of each image. By hand: heap_store_crash_test --programs N.
#include <cstdio>
#include <mutex>

#include <gtest/gtest.h>

#include "simulator/parallel.hpp"
#include "simulator/simulator_main.hpp"
#include "simulator/transact/heap_store_explorer.hpp"

namespace holdfast::simulator {
namespace {

constexpr unsigned steps_of_a_program = 24;

TEST(heap_store_crash_test, every_image_has_all_of_a_transaction_or_nothing) {
    const std::uint64_t programs = options().programs_or(60, 4);
    const choice_limits cuts = options().quick ? choice_limits{4, 2, 2, 2} : choice_limits{16, 6, 6, 8};
    std::mutex mutex;
    heap_store_counts all;
    for_each_in_parallel(programs, [&](std::size_t i) {
        const std::uint64_t seed = i + 1;
        heap_store_explorer one(seed, seed % 4 == 0 ? 8 : 512, cuts);
        one.run(steps_of_a_program);
        const std::lock_guard lock{mutex};
        EXPECT_EQ(one.wrong(), "") << "program " << seed;
        all.images += one.counts().images;
        all.older += one.counts().older;
        all.aborts += one.counts().aborts;
        all.durable += one.counts().durable;
        all.refused += one.counts().refused;
        all.poisoned += one.counts().poisoned;
    });
    std::printf(
        "%llu images, %llu of them without the last transaction; %llu transactions, %llu aborts, %llu refused, "
        "%llu poisoned\n",
        static_cast<unsigned long long>(all.images), static_cast<unsigned long long>(all.older),
        static_cast<unsigned long long>(all.durable), static_cast<unsigned long long>(all.aborts),
        static_cast<unsigned long long>(all.refused), static_cast<unsigned long long>(all.poisoned));
    EXPECT_GT(all.images, programs * 200);
    EXPECT_GT(all.older, all.images / 10) << "the medium loses something";
    EXPECT_GT(all.durable, programs);
    EXPECT_GT(all.aborts, 0U);
    EXPECT_GT(all.poisoned, 0U);
    if (programs >= 40) {
        EXPECT_GT(all.refused, 0U) << "calls that fail, and programs that go on";
    }
}

}  // namespace
}  // namespace holdfast::simulator

int main(int count, char** arguments) { return holdfast::simulator::simulator_main(count, arguments); }
