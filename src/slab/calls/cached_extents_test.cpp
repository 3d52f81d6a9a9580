// Big blocks through caches of free extents: what the user is told, and where space is when it runs out.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t kib = 1024;

/// On a machine with several cores the other thread has another arena.
template <class Act>
void elsewhere(Act act) {
    std::thread(act).join();
}

TEST(cached_extents_test, a_freed_block_is_given_again_and_its_size_is_what_it_is) {
    test_heap heap;
    heap.keep_extents();
    void* const first = heap.blocks().allocate(72 * kib, 16);
    ASSERT_TRUE(heap.blocks().try_free(first));
    void* const again = heap.blocks().allocate_typed(64 * kib, 16, 9);
    EXPECT_EQ(again, first);
    EXPECT_EQ(*heap.blocks().inspect().usable_size(again), 72 * kib);
    EXPECT_EQ(*heap.blocks().inspect().type_of(again), 9U);
    EXPECT_THAT(heap.problems(), IsEmpty());
    ASSERT_TRUE(heap.blocks().try_free(again));
    EXPECT_TRUE(heap.blocks().inspect().all_free());
    held_block held;
    ASSERT_TRUE(heap.blocks().hold(heap.blocks().this_cache(), 65 * kib, 16, held));
    EXPECT_EQ(heap.space().view().address({held.offset}), first);
    EXPECT_EQ(held.bytes(), 72 * kib);
    heap.blocks().release(heap.blocks().this_cache(), held);
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(cached_extents_test, a_second_free_is_named) {
    test_heap heap;
    heap.keep_extents();
    auto* const block = static_cast<std::byte*>(heap.blocks().allocate(100 * kib, 16));
    ASSERT_TRUE(heap.blocks().try_free(block));
    for (std::byte* const wrong : {block, block + 4 * kib}) {
        EXPECT_FALSE(heap.blocks().try_free(wrong));
        EXPECT_EQ(block_allocator::last_failure().code, base::failure_code::bad_address);
        EXPECT_FALSE(heap.blocks().inspect().usable_size(wrong).ok());
        held_block found;
        EXPECT_FALSE(heap.blocks().find_allocated(wrong, found));
        EXPECT_THAT(block_allocator::last_failure().found, HasSubstr("free memory"));
    }
    EXPECT_FALSE(heap.blocks().try_free(block));
    EXPECT_THAT(block_allocator::last_failure().found, HasSubstr("free memory"));
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(cached_extents_test, cached_extents_are_free_after_a_crash) {
    test_heap heap;
    heap.keep_extents();
    std::vector<void*> blocks;
    for (std::size_t bytes = 16 * kib; bytes <= 1024 * kib; bytes *= 2) {
        blocks.push_back(heap.blocks().allocate(bytes, 16));
    }
    for (void* const block : blocks) {
        ASSERT_TRUE(heap.blocks().try_free(block));
    }
    ASSERT_GT(heap.extents().count(segment::extent_kind::reserved), 3U);
    ASSERT_TRUE(heap.reopen().ok());
    EXPECT_TRUE(heap.blocks().inspect().all_free());
    EXPECT_EQ(heap.extents().count(segment::extent_kind::reserved), 0U);
    EXPECT_EQ(heap.extents().count(segment::extent_kind::free), 1U);
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(cached_extents_test, what_another_arena_caches_is_found_when_space_runs_out) {
    test_heap heap(std::uint64_t{1} << 30, std::uint64_t{8} << 20);
    heap.keep_extents();
    const auto fill = [&heap](std::size_t bytes) {
        std::vector<void*> blocks;
        while (void* const block = heap.blocks().allocate(bytes, 16)) {
            blocks.push_back(block);
        }
        return blocks;
    };
    std::vector<void*> all;
    elsewhere([&] {
        all = fill(64 * kib);
        ASSERT_GT(all.size(), 100U);
        for (std::size_t i = all.size() - 8; i < all.size(); ++i) {
            ASSERT_TRUE(heap.blocks().try_free(all[i]));
        }
        all.resize(all.size() - 8);
    });
    EXPECT_GT(heap.extents().count(segment::extent_kind::reserved), 4U);
    void* big = nullptr;
    elsewhere([&] { big = heap.blocks().allocate(512 * kib, 16); });  // all eight, side by side
    EXPECT_NE(big, nullptr) << block_allocator::last_failure().message();
    EXPECT_THAT(heap.problems(), IsEmpty());
    ASSERT_TRUE(heap.blocks().try_free(big));
    elsewhere([&] { EXPECT_NE(heap.blocks().allocate(64, 16), nullptr); });  // a slab
    EXPECT_THAT(heap.problems(), IsEmpty());
}

}  // namespace
}  // namespace holdfast::slab
