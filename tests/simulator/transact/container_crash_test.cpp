// Transactions over containers of every kind, with an abort at every allocation and the power cut at every operation:
// container_explorer.hpp says what is asked of each image. By hand: container_crash_test --programs N.
#include <algorithm>
#include <cstdio>
#include <mutex>
#include <string>

#include <gtest/gtest.h>

#include "simulator/parallel.hpp"
#include "simulator/simulator_main.hpp"
#include "simulator/transact/container_explorer.hpp"

namespace holdfast::simulator {
namespace {

constexpr unsigned transactions_of_a_program = 24;

TEST(container_crash_test, EveryImageHasWhatATransactionLeft) {
    const std::uint64_t programs = options().programs_or(60, 6);
    const choice_limits cuts = options().quick ? choice_limits{64, 16, 16, 16} : choice_limits{4096, 256, 256, 256};
    std::mutex mutex;
    container_counts all;
    for_each_in_parallel(programs, [&](std::size_t i) {
        const std::uint64_t seed = i + 1;
        container_explorer one(seed, seed % 4 == 0 ? 8 : 512, cuts);
        one.run(transactions_of_a_program);
        const std::lock_guard lock{mutex};
        EXPECT_EQ(one.wrong(), "") << "program " << seed;
        all.images += one.counts().images;
        all.opened += one.counts().opened;
        all.aborts += one.counts().aborts;
        all.transactions += one.counts().transactions;
        if ((i + 1) % 10 == 0) {
            std::printf("%llu programs, %llu images\n", static_cast<unsigned long long>(i + 1),
                        static_cast<unsigned long long>(all.images));
            std::fflush(stdout);
        }
    });
    std::printf("%llu images, %llu of them opened, %llu transactions, %llu aborts\n",
                static_cast<unsigned long long>(all.images), static_cast<unsigned long long>(all.opened),
                static_cast<unsigned long long>(all.transactions), static_cast<unsigned long long>(all.aborts));
    EXPECT_GE(all.images, options().quick ? 10'000U : programs * 60'000);
    EXPECT_GE(all.aborts, programs * transactions_of_a_program);
    EXPECT_GE(all.transactions, programs * transactions_of_a_program / 2);
}

}  // namespace
}  // namespace holdfast::simulator

int main(int count, char** arguments) { return holdfast::simulator::simulator_main(count, arguments); }
