// Heaps that separate cache lines, in each durability: no two blocks ever share one, however they came to be.
#include <array>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <holdfast/manager.hpp>

#include "api/manager_test_configurations.hpp"

namespace holdfast {
namespace {

using testing::IsEmpty;

constexpr std::uint64_t line = 64;

class cache_lines_test : public manager_test, public testing::WithParamInterface<test_configuration> {
protected:
    static open_options options(bool separate = true) {
        open_options wanted = options_of(GetParam());
        wanted.separate_cache_lines = separate;
        return wanted;
    }

    /// Blocks in order of address, each of whole lines, behind the one before.
    static void expect_whole_lines(manager& heap, std::size_t count) {
        std::uint64_t end = 0;
        std::size_t seen = 0;
        heap.for_each_block([&](const block_info& block) {
            const auto begin = static_cast<std::uint64_t>(heap.get_handle_from_address(block.address));
            EXPECT_EQ(begin % line, 0U);
            EXPECT_EQ(block.size % line, 0U);
            EXPECT_EQ(heap.usable_size(block.address), block.size);
            EXPECT_GE(begin, end);
            end = begin + block.size;
            ++seen;
        });
        EXPECT_EQ(seen, count);
        EXPECT_THAT(heap.check(false), IsEmpty());
    }
    /// A block for each of three roots, by `bytes` and a type; returns how many that are.
    static std::size_t publish_some(manager& heap, std::size_t slot, std::size_t bytes) {
        heap.allocate_to(heap.root(slot), bytes, {.type = static_cast<std::uint32_t>(bytes % 3)});
        heap.allocate_to(heap.root(slot + 1), bytes);
        heap.realloc_to(heap.root(slot + 1), bytes + 37);
        heap.publish(heap.root(slot + 2), heap.reserve(bytes));
        return 3;
    }
};

TEST_P(cache_lines_test, no_two_blocks_share_one_before_and_after_an_open) {
    std::size_t blocks = 0;
    {
        manager heap(create_only, path(), options());
        EXPECT_TRUE(heap.separates_cache_lines());
        for (std::size_t i = 0; i < 100; ++i) {
            blocks += publish_some(heap, 3 * i, 1 + 3 * i);
        }
        expect_whole_lines(heap, blocks);
    }
    manager heap(open_only, path(), options(false));
    EXPECT_TRUE(heap.separates_cache_lines()) << "it was created so";
    expect_whole_lines(heap, blocks);
    for (std::size_t i = 100; i < 150; ++i) {
        blocks += publish_some(heap, 3 * i, i);
    }
    for (std::size_t i = 0; i < 50; ++i) {
        heap.deallocate(heap.root(3 * i).get());
        heap.root(3 * i) = nullptr;
        heap.root(3 * i) = heap.allocate(i + 1);
    }
    expect_whole_lines(heap, blocks);
}

TEST_P(cache_lines_test, every_size_takes_the_next_whole_lines) {
    manager heap(create_only, path(), options());
    for (const auto& [bytes, size] :
         {std::pair{1, 64}, {8, 64}, {48, 64}, {64, 64}, {65, 128}, {128, 128}, {129, 192}}) {
        const auto wanted = static_cast<std::size_t>(bytes);
        void* const first = heap.allocate(wanted);
        EXPECT_EQ(heap.usable_size(first), static_cast<std::size_t>(size));
        heap.deallocate(first);
        EXPECT_EQ(heap.usable_size(heap.allocate(wanted)), static_cast<std::size_t>(size)) << "and so from a cache";
        EXPECT_EQ(heap.usable_size(heap.allocate_aligned(wanted, 1)), static_cast<std::size_t>(size));
    }
    heap.construct<char>("small")('s');
    EXPECT_EQ(heap.usable_size(heap.find<char>("small").first), line);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.allocate_aligned(8, 3)); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.allocate(0)); }), errc::invalid_argument);
}

TEST_P(cache_lines_test, threads_that_allocate_and_free_share_none) {
    for (const bool hardened : {false, true}) {
        open_options wanted = options();
        wanted.hardened = hardened;
        manager heap(open_or_create, path(), wanted);
        constexpr unsigned threads = 3;
        std::array<std::vector<void*>, threads> held;
        std::vector<std::thread> all;
        for (unsigned me = 0; me < threads; ++me) {
            all.emplace_back([&heap, &mine = held.at(me), me] {
                std::mt19937_64 random(me);
                for (int i = 0; i < 3000; ++i) {
                    if (mine.size() < 100 || random() % 2 == 0) {
                        mine.push_back(heap.allocate(1 + random() % 400));
                    } else {
                        std::swap(mine[random() % mine.size()], mine.back());
                        heap.deallocate(mine.back());
                        mine.pop_back();
                    }
                }
            });
        }
        for (std::thread& each : all) {
            each.join();
        }
        expect_whole_lines(heap, held[0].size() + held[1].size() + held[2].size());
        for (const auto& blocks : held) {
            for (void* const block : blocks) {
                heap.deallocate(block);
            }
        }
        EXPECT_TRUE(heap.all_memory_deallocated());
    }
}

TEST_P(cache_lines_test, a_heap_without_the_option_is_as_ever) {
    {
        manager heap(create_only, path(), options(false));
        EXPECT_FALSE(heap.separates_cache_lines());
        EXPECT_EQ(heap.usable_size(heap.allocate(8)), 8U);
    }
    manager heap(open_or_create, path(), options(true));
    EXPECT_FALSE(heap.separates_cache_lines()) << "an option of creation alone";
    EXPECT_EQ(heap.usable_size(heap.allocate(40)), 48U);
    EXPECT_THAT(heap.check(true), IsEmpty());
}

TEST_P(cache_lines_test, copies_and_snapshots_separate_them_too) {
    {
        manager heap(create_only, path(), options());
        heap.root(0) = heap.allocate(8);
        heap.snapshot(path("snapshot"));
    }
    manager::copy(path(), path("copy"));
    for (const char* const name : {"snapshot", "copy"}) {
        manager heap(open_only, path(name), options(false));
        EXPECT_TRUE(heap.separates_cache_lines());
        heap.root(1) = heap.allocate(8);
        expect_whole_lines(heap, 2);
    }
}

INSTANTIATE_TEST_SUITE_P(durabilities, cache_lines_test, all_test_configurations(), name_of_configuration);

}  // namespace
}  // namespace holdfast
