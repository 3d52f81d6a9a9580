// How much room blocks below 64 bytes have, in every durability and after it was closed and killed.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "api/manager_test_configurations.hpp"

namespace holdfast {
namespace {

using testing::IsEmpty;

std::size_t rounded_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }
std::uintptr_t number_of(const void* block) { return reinterpret_cast<std::uintptr_t>(block); }

class manager_small_blocks_test : public manager_test, public testing::WithParamInterface<test_configuration> {
protected:
    [[nodiscard]] manager create_heap(bool whole_lines = false) const {
        open_options wanted = options_of(GetParam());
        wanted.separate_cache_lines = whole_lines;
        return {create_only, path(), wanted};
    }
    [[nodiscard]] manager open_heap() const { return {open_only, path(), options_of(GetParam())}; }
};

INSTANTIATE_TEST_SUITE_P(in, manager_small_blocks_test, all_test_configurations(), name_of_configuration);

TEST_P(manager_small_blocks_test, at_an_alignment_of_8_leave_less_than_8_bytes_unused) {
    manager heap = create_heap();
    for (std::size_t alignment = 1; alignment <= 8; alignment *= 2) {
        for (std::size_t bytes = 1; bytes <= 64; ++bytes) {
            void* const block = heap.allocate_aligned(bytes, alignment);
            EXPECT_EQ(heap.usable_size(block), rounded_up(bytes, 8)) << bytes << " at " << alignment;
            EXPECT_EQ(number_of(block) % 8, 0U);
            heap.allocate_to(heap.root(0), bytes, {.alignment = alignment});
            EXPECT_EQ(heap.usable_size(heap.root(0).get()), rounded_up(bytes, 8)) << bytes << " at " << alignment;
            heap.free_from(heap.root(0));
            heap.deallocate(block);
        }
    }
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(manager_small_blocks_test, without_an_alignment_keep_that_of_malloc) {
    manager heap = create_heap();
    for (std::size_t bytes = 1; bytes <= 256; ++bytes) {
        for (int round = 0; round < 3; ++round) {  // from a new list, and from one that the thread has
            void* const block = heap.allocate(bytes);
            EXPECT_EQ(number_of(block) % (bytes < 16 ? 8 : 16), 0U) << bytes;
            EXPECT_EQ(heap.usable_size(block), bytes <= 8 ? 8 : rounded_up(bytes, 16)) << bytes;
            void* const by_traits = heap.allocate(bytes, allocation_traits{});
            EXPECT_EQ(number_of(by_traits) % (bytes < 16 ? 8 : 16), 0U) << bytes;
        }
    }
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(manager_small_blocks_test, of_each_size_are_found_again_and_freed) {
    constexpr std::size_t blocks_of_each = 400;
    {
        manager heap = create_heap();
        for (std::size_t bytes = 8; bytes <= 64; bytes += 8) {
            auto& all = *heap.construct<vector<ptr<void>>>(std::to_string(bytes).c_str())(heap.get_allocator<int>());
            for (std::size_t i = 0; i < blocks_of_each; ++i) {
                all.emplace_back(std::memset(heap.allocate_aligned(bytes, 8), static_cast<int>(bytes + i), bytes));
            }
        }
    }
    manager heap = open_heap();
    EXPECT_THAT(heap.check(false), IsEmpty());
    for (std::size_t bytes = 8; bytes <= 64; bytes += 8) {
        const auto& all = *heap.find<vector<ptr<void>>>(std::to_string(bytes).c_str()).first;
        ASSERT_EQ(all.size(), blocks_of_each);
        for (std::size_t i = 0; i < blocks_of_each; ++i) {
            const auto* const block = static_cast<const unsigned char*>(all[i].get());
            EXPECT_EQ(heap.usable_size(block), bytes);
            EXPECT_EQ(std::vector<unsigned char>(block, block + bytes),
                      std::vector<unsigned char>(bytes, static_cast<unsigned char>(bytes + i)));
            heap.deallocate(all[i].get());
        }
        EXPECT_TRUE(heap.destroy<vector<ptr<void>>>(std::to_string(bytes).c_str()));
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
}

TEST_P(manager_small_blocks_test, are_what_allocators_of_containers_ask_for) {
    struct node {
        std::uint64_t words[5];
    };
    manager heap = create_heap();
    auto nodes = heap.get_allocator<node>();
    const ptr<node> one = nodes.allocate(1);
    EXPECT_EQ(heap.usable_size(one.get()), sizeof(node));
    nodes.deallocate(one, 1);
    auto letters = heap.get_allocator<char>();
    const ptr<char> some = letters.allocate(17);
    EXPECT_EQ(heap.usable_size(some.get()), 24U);
    letters.deallocate(some, 17);
}

TEST_P(manager_small_blocks_test, are_whole_cache_lines_where_these_are_separated) {
    manager heap = create_heap(true);
    for (const std::size_t bytes : {std::size_t{17}, std::size_t{33}, std::size_t{49}}) {
        EXPECT_EQ(heap.usable_size(heap.allocate_aligned(bytes, 8)), 64U);
    }
}

}  // namespace
}  // namespace holdfast
