// Where threads find their lists, with more heaps than places, heaps that come and go, and a closed heap.
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

using testing::IsEmpty;

constexpr std::size_t bytes = 64;

/// Returns whether the shortest path finds a block in this thread's cache.
bool finds_a_block(test_heap& heap) {
    void* const first = heap.blocks().allocate(bytes, 8);
    EXPECT_NE(first, nullptr);
    void* const found = heap.blocks().fast_path().allocate(bytes);
    if (found != nullptr) {
        EXPECT_EQ(heap.granule_of(found), heap.granule_of(first)) << "of another heap";
        EXPECT_NE(found, first);
        EXPECT_TRUE(heap.blocks().fast_path().free(found));
        EXPECT_FALSE(heap.blocks().fast_path().free(found)) << "twice";
    }
    EXPECT_TRUE(heap.blocks().fast_path().free(first));
    return found != nullptr;
}

TEST(fast_path_test, a_closed_heap_gives_nothing_and_takes_nothing) {
    test_heap heap;
    void* const block = heap.blocks().allocate(bytes, 8);
    const fast_path& closed = fast_path::of_no_heap();
    for (const std::size_t wanted :
         {std::size_t{0}, std::size_t{1}, bytes, fine_limit, fine_limit + 1, ~std::size_t{0}}) {
        EXPECT_EQ(closed.allocate(wanted), nullptr) << wanted;
    }
    EXPECT_FALSE(closed.free(block));
    EXPECT_FALSE(closed.free(nullptr));
    heap.blocks().close();
    EXPECT_EQ(heap.blocks().fast_path().allocate(bytes), nullptr);
    EXPECT_FALSE(heap.blocks().fast_path().free(block));
}

TEST(fast_path_test, sizes_without_a_list_of_their_own) {
    test_heap heap;
    for (const std::size_t wanted : {std::size_t{1}, std::size_t{8}, fine_limit}) {
        EXPECT_NE(heap.blocks().allocate(wanted, 8), nullptr);
        EXPECT_NE(heap.blocks().fast_path().allocate(wanted), nullptr) << wanted;
    }
    for (const std::size_t wanted : {std::size_t{0}, fine_limit + 1, ~std::size_t{0} - 6, ~std::size_t{0}}) {
        EXPECT_EQ(heap.blocks().fast_path().allocate(wanted), nullptr) << wanted;
    }
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(fast_path_test, all_blocks_that_it_gives_are_different_and_are_found_again) {
    test_heap heap;
    std::vector<void*> all;
    for (int i = 0; i < 5000; ++i) {
        void* const block = heap.blocks().fast_path().allocate(bytes);
        all.push_back(block != nullptr ? block : heap.blocks().allocate(bytes, 8));
    }
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
    EXPECT_EQ(heap.blocks().inspect().statistics().allocated_blocks, all.size());
    EXPECT_THAT(heap.problems(), IsEmpty());
    for (void* const block : all) {
        EXPECT_FALSE(heap.blocks().fast_path().free(static_cast<std::byte*>(block) + 8));
        EXPECT_TRUE(heap.blocks().fast_path().free(block));
    }
    EXPECT_TRUE(heap.blocks().inspect().all_free());
}

TEST(fast_path_test, heaps_beyond_the_places_do_without) {
    std::vector<std::unique_ptr<test_heap>> heaps(own_place_count + 3);
    const auto count_quick = [&heaps] {
        unsigned quick = 0;
        for (const auto& heap : heaps) {
            quick += heap != nullptr && finds_a_block(*heap) ? 1U : 0U;
        }
        return quick;
    };
    for (auto& heap : heaps) {
        heap = std::make_unique<test_heap>();
    }
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(count_quick(), own_place_count);
    }
    // No place is lost or given twice.
    for (std::size_t i = 0; i < heaps.size(); ++i) {
        heaps[i].reset();
        EXPECT_EQ(count_quick(), i < own_place_count ? own_place_count - 1 : own_place_count) << i;
        heaps[i] = std::make_unique<test_heap>();
        EXPECT_EQ(count_quick(), own_place_count) << i;
    }
    for (const auto& heap : heaps) {
        EXPECT_THAT(heap->problems(), IsEmpty());
    }
}

TEST(fast_path_test, a_thread_finds_nothing_of_a_heap_that_had_the_place_before) {
    auto first = std::make_unique<test_heap>();
    std::promise<void> used;
    std::promise<test_heap*> reopened;
    std::thread other([&] {
        EXPECT_TRUE(finds_a_block(*first));
        used.set_value();
        test_heap& second = *reopened.get_future().get();
        EXPECT_EQ(second.blocks().fast_path().allocate(bytes), nullptr) << "this thread has no cache for it yet";
        EXPECT_TRUE(finds_a_block(second));
    });
    EXPECT_TRUE(finds_a_block(*first));
    used.get_future().wait();
    first.reset();
    test_heap second;
    EXPECT_EQ(second.blocks().fast_path().allocate(bytes), nullptr);
    reopened.set_value(&second);
    other.join();
    EXPECT_EQ(second.blocks().fast_path().allocate(bytes), nullptr) << "of another thread's cache";
    EXPECT_TRUE(finds_a_block(second));
    EXPECT_TRUE(second.blocks().inspect().all_free());
    EXPECT_THAT(second.problems(), IsEmpty());
}

/// As in a child of fork, with a heap that it shares with its parent.
TEST(fast_path_test, copies_of_an_abandoned_heap_find_nothing) {
    test_heap heap;
    void* const block = heap.blocks().allocate(bytes, 8);
    const fast_path copy = heap.blocks().fast_path();
    void* const found = copy.allocate(bytes);
    ASSERT_NE(found, nullptr);
    heap.blocks().abandon();
    EXPECT_FALSE(copy.free(block));
    EXPECT_FALSE(copy.free(found));
    EXPECT_EQ(copy.allocate(bytes), nullptr);
    std::vector<std::unique_ptr<test_heap>> others(own_place_count);
    for (auto& other : others) {
        other = std::make_unique<test_heap>();
        EXPECT_NE(other->blocks().allocate(bytes, 8), nullptr);
        EXPECT_EQ(copy.allocate(bytes), nullptr) << "its place is nobody else's";
    }
}

}  // namespace
}  // namespace holdfast::slab
