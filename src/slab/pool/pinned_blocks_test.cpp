// Pinned blocks, which only their owner may free: in any kind of slab, no free takes one until it is unpinned.
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/nodes/node_heap_test_support.hpp"
#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

void expect_pinned(block_allocator& blocks, void* block) {
    EXPECT_FALSE(blocks.try_free(block));
    EXPECT_EQ(block_allocator::last_failure().code, base::failure_code::bad_address);
    EXPECT_THAT(block_allocator::last_failure().found, HasSubstr("object"));
    EXPECT_FALSE(blocks.free_exactly(block));
    held_block found;
    EXPECT_FALSE(blocks.find_allocated(block, found));
    EXPECT_TRUE(blocks.inspect().usable_size(block).ok()) << "it is allocated";
}

TEST(pinned_blocks, AreRefusedUntilTheyAreUnpinned) {
    test_heap heap;
    for (const std::size_t bytes : {std::size_t{16}, std::size_t{4096}, std::size_t{70'000}}) {
        void* const block = heap.blocks().allocate(bytes, 16);
        heap.blocks().pin(block, pinned_blocks::make_place());
        expect_pinned(heap.blocks(), block);
        EXPECT_THAT(heap.problems(), IsEmpty());
        EXPECT_FALSE(heap.blocks().unpin(block).empty());
        EXPECT_TRUE(heap.blocks().unpin(block).empty());
        EXPECT_TRUE(heap.blocks().try_free(block)) << bytes;
    }
    EXPECT_TRUE(heap.blocks().inspect().all_free());
}

TEST(pinned_blocks, WithoutAPlaceNothingIsPinned) {
    test_heap heap;
    void* const block = heap.blocks().allocate(64, 16);
    heap.blocks().pin(block, {});
    EXPECT_TRUE(heap.blocks().try_free(block));
}

TEST(pinned_blocks, OfSlabsThatNobodyHasLoadedAreRefusedWhenTheyAre) {
    test_heap heap;
    std::vector<std::byte*> all = heap.whole_slab(64);
    ASSERT_TRUE(heap.reopen().ok());
    heap.blocks().pin(all[3], pinned_blocks::make_place());
    heap.blocks().pin(all[4], pinned_blocks::make_place());
    EXPECT_FALSE(heap.blocks().unpin(all[4]).empty()) << "not loaded yet";
    for (std::byte* const block : all) {
        EXPECT_EQ(heap.blocks().try_free(block), block != all[3]);
    }
    expect_pinned(heap.blocks(), all[3]);
    EXPECT_FALSE(heap.blocks().unpin(all[3]).empty());
    EXPECT_TRUE(heap.blocks().try_free(all[3]));
    EXPECT_TRUE(heap.blocks().inspect().all_free());
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(pinned_blocks, StayPinnedWhenTheirSlabBecomesOneOfAnotherClass) {
    test_heap heap;
    std::vector<std::byte*> all = heap.whole_slab(2048);
    heap.blocks().pin(all[0], pinned_blocks::make_place());
    for (std::byte* const block : all) {
        EXPECT_EQ(heap.blocks().try_free(block), block != all[0]);
    }
    heap.blocks().small().flush_this_thread();
    ASSERT_TRUE(heap.blocks().morph(heap.granule_of(all[0]), class_for(256, 1), 100));
    expect_pinned(heap.blocks(), all[0]);
    EXPECT_THAT(heap.problems(), IsEmpty());
    EXPECT_FALSE(heap.blocks().unpin(all[0]).empty());
    EXPECT_TRUE(heap.blocks().try_free(all[0]));
    EXPECT_TRUE(heap.blocks().inspect().all_free());
}

TEST(pinned_blocks, AreRefusedOnEveryNode) {
    node_heap heap(2);
    void* block = nullptr;
    on_node(0, [&] {
        block = heap.blocks().allocate(200, 8);
        heap.blocks().pin(block, pinned_blocks::make_place());
    });
    for (const unsigned node : {0U, 1U}) {
        on_node(node, [&] { expect_pinned(heap.blocks(), block); });
    }
    on_node(1, [&] {
        EXPECT_FALSE(heap.blocks().unpin(block).empty());
        EXPECT_TRUE(heap.blocks().try_free(block));
    });
    EXPECT_TRUE(heap.blocks().inspect().all_free());
    EXPECT_THAT(heap.problems(), IsEmpty());
}

}  // namespace
}  // namespace holdfast::slab
