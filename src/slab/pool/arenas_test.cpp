// Which arena a thread allocates from, where there are more threads than arenas.
#include <sched.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

using testing::IsEmpty;

std::vector<unsigned> usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<unsigned> cores;
    if (::sched_getaffinity(0, sizeof set, &set) == 0) {
        for (unsigned core = 0; core < CPU_SETSIZE; ++core) {
            if (CPU_ISSET(core, &set)) {
                cores.push_back(core);
            }
        }
    }
    return cores;
}

void on_core(unsigned core, const std::function<void()>& act) {
    std::thread([&] {
        cpu_set_t only;
        CPU_ZERO(&only);
        CPU_SET(core, &only);
        ASSERT_EQ(::sched_setaffinity(0, sizeof only, &only), 0);
        act();
    }).join();
}

TEST(arenas_test, threads_of_one_core_share_slabs_where_threads_are_more_than_arenas) {
    test_heap heap;
    const unsigned arenas = std::clamp(std::thread::hardware_concurrency(), 1U, maximum_arenas);
    const std::vector<unsigned> cores = usable_cores();
    ASSERT_FALSE(cores.empty());
    for (unsigned i = 0; i <= arenas; ++i) {
        on_core(cores.front(), [&] { EXPECT_NE(heap.blocks().allocate(5000, 8), nullptr); });
    }
    // A live block keeps the slab in its arena.
    std::vector<base::granule> slabs;
    for (const unsigned core : cores) {
        on_core(core, [&] { slabs.push_back(heap.granule_of(heap.blocks().allocate(64, 8))); });
    }
    for (int turn = 0; turn < 3; ++turn) {
        for (std::size_t i = 0; i < cores.size(); ++i) {
            on_core(cores[i], [&] {
                EXPECT_EQ(heap.granule_of(heap.blocks().allocate(64, 8)), slabs[i]) << "core " << cores[i];
            });
        }
    }
    for (std::size_t i = 1; i < cores.size(); ++i) {
        EXPECT_EQ(slabs[i] == slabs[i - 1], cores[i] % arenas == cores[i - 1] % arenas);
    }
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(arenas_test, threads_have_arenas_of_their_own_while_there_are_enough) {
    const unsigned arenas = std::clamp(std::thread::hardware_concurrency(), 1U, maximum_arenas);
    const std::vector<unsigned> cores = usable_cores();
    ASSERT_FALSE(cores.empty());
    test_heap heap;
    std::vector<base::granule> slabs;
    for (unsigned i = 0; i < arenas; ++i) {
        on_core(cores.front(), [&] { slabs.push_back(heap.granule_of(heap.blocks().allocate(64, 8))); });
    }
    for (unsigned i = 1; i < arenas; ++i) {
        EXPECT_NE(slabs[i], slabs[i - 1]) << "each has its turn, though all ran on one core";
    }
    EXPECT_THAT(heap.problems(), IsEmpty());
}

}  // namespace
}  // namespace holdfast::slab
