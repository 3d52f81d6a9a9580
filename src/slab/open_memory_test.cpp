// How much DRAM an open takes for unused slabs: their states, and no more.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/nodes/remote_touches_test_support.hpp"
#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

using testing::IsEmpty;

/// The resident pages of the table of that name, for the heap's slabs.
std::uint64_t resident_pages(test_heap& heap, const char* name) {
    std::uint64_t found = 0;
    const base::granule end{heap.blocks().end_offset() / base::granule_size};
    const auto count = [&](const char* table, const void* first, const void* last) {
        if (std::strcmp(table, name) != 0) {
            return;
        }
        const auto begin = base::align_down(reinterpret_cast<std::uintptr_t>(first), base::page_size);
        const auto bytes = base::align_up(reinterpret_cast<std::uintptr_t>(last), base::page_size) - begin;
        std::vector<unsigned char> in_memory(bytes / base::page_size);
        ASSERT_EQ(::mincore(reinterpret_cast<void*>(begin), bytes, in_memory.data()), 0);
        found += static_cast<std::uint64_t>(
            std::ranges::count_if(in_memory, [](unsigned char page) { return (page & 1U) != 0; }));
    };
    allocator_memory::pool_of(heap.blocks()).table().for_each_range({0}, end, count);
    return found;
}

TEST(open_memory_test, slabs_cost_nothing_but_their_states_until_they_are_used) {
    test_heap heap;
    std::vector<void*> blocks;
    for (int i = 0; i < 2000; ++i) {
        for (const std::size_t bytes : {std::size_t{640}, std::size_t{6000}}) {
            blocks.push_back(heap.blocks().allocate(bytes, 16));
            ASSERT_NE(blocks.back(), nullptr);
        }
    }
    ASSERT_GT(heap.blocks().inspect().statistics().slabs, 200U);
    EXPECT_GT(resident_pages(heap, "descriptors"), 6U) << "this test sees no memory";
    EXPECT_GT(resident_pages(heap, "block states"), 0U) << "this test sees no memory";
    ASSERT_TRUE(heap.reopen().ok());
    EXPECT_EQ(resident_pages(heap, "descriptors"), 0U);
    EXPECT_EQ(resident_pages(heap, "block states"), 0U);
    EXPECT_EQ(resident_pages(heap, "types"), 0U) << "no slab has a type";
    ASSERT_TRUE(heap.blocks().try_free(blocks.front()));
    EXPECT_EQ(resident_pages(heap, "descriptors"), 1U) << "of one slab";
    for (void* const block : blocks) {
        EXPECT_EQ(heap.blocks().try_free(block), block != blocks.front());
    }
    EXPECT_THAT(heap.problems(), IsEmpty());
}

}  // namespace
}  // namespace holdfast::slab
