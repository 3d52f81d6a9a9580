#include <memory>
#include <new>
#include <type_traits>

#include <gtest/gtest.h>
#include <holdfast/containers.hpp>

#include "arena.hpp"

namespace holdfast::test {
namespace {

TEST(allocators, satisfy_allocator_traits) {
    using traits = std::allocator_traits<allocator<int>>;
    static_assert(std::is_same_v<traits::pointer, ptr<int>>);
    static_assert(std::is_same_v<traits::const_pointer, ptr<const int>>);
    static_assert(std::is_same_v<traits::void_pointer, ptr<void>>);
    static_assert(std::is_same_v<traits::rebind_alloc<char>, allocator<char>>);
    static_assert(std::is_same_v<std::pointer_traits<ptr<int>>::rebind<char>, ptr<char>>);
    static_assert(!traits::is_always_equal::value && !traits::propagate_on_container_swap::value);
    static_assert(std::is_trivially_copyable_v<allocator<int>> && std::is_nothrow_copy_constructible_v<allocator<int>>);
    static_assert(std::is_default_constructible_v<fallback_allocator<int>>);
}

TEST(allocators, of_one_heap_are_equal_whatever_their_type) {
    arena one;
    arena two;
    EXPECT_EQ(one.get_allocator<int>(), allocator<int>(one.get_allocator<double>()));
    EXPECT_NE(one.get_allocator<int>(), two.get_allocator<int>());
    struct handle {
        std::uint64_t of;
        [[nodiscard]] std::uint64_t key() const { return of; }
    };
    const handle heap{one.get_allocator<int>().key()};
    EXPECT_EQ((allocator<int, handle>(&heap).key()), one.get_allocator<int>().key());
}

TEST(allocators, give_and_take_back) {
    arena heap;
    auto numbers = heap.get_allocator<long>();
    ptr<long> first = numbers.allocate(100);
    EXPECT_TRUE(heap.contains(first.get()));
    EXPECT_EQ(heap.blocks(), 1U);
    numbers.deallocate(first, 100);
    EXPECT_EQ(heap.blocks(), 0U);
}

TEST(allocators, align_for_the_type) {
    struct alignas(256) wide {
        char bytes[256];
    };
    arena heap;
    auto bytes = heap.get_allocator<char>();
    auto wides = heap.get_allocator<wide>();
    const auto byte = bytes.allocate(1);
    const auto block = wides.allocate(2);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.get()) % 256, 0U);
    wides.deallocate(block, 2);
    bytes.deallocate(byte, 1);
}

TEST(allocators, refuse_lengths_that_overflow) {
    arena heap;
    auto numbers = heap.get_allocator<long>();
    EXPECT_THROW(static_cast<void>(numbers.allocate(numbers.max_size() + 1)), std::bad_array_new_length);
    EXPECT_THROW(static_cast<void>(numbers.allocate(std::numeric_limits<std::size_t>::max())),
                 std::bad_array_new_length);
    EXPECT_THROW(static_cast<void>(numbers.allocate(numbers.max_size())), std::bad_alloc);
}

TEST(allocators, fallback_serves_the_stack_and_the_heap) {
    using numbers = vector<int, fallback_allocator<int>>;
    arena heap;
    numbers outside;
    outside.assign(100, 1);
    EXPECT_FALSE(heap.contains(outside.data()));
    resident<numbers> inside(heap, fallback_allocator<int>(heap.get_allocator<int>()));
    *inside = outside;
    EXPECT_TRUE(heap.contains(inside->data()));
    *inside = std::move(outside);
    EXPECT_TRUE(heap.contains(inside->data()));
    heap.relocate();
    EXPECT_EQ(inside->at(99), 1);
}

TEST(allocators, of_moved_from_strings_leak_nothing) {
    arena heap;  // its destructor finds what leaked
    resident<vector<string>> texts(heap, heap.get_allocator<string>());
    for (int i = 0; i < 50; ++i) {
        texts->insert(texts->begin(),
                      string("a text that is too long for the string itself", heap.get_allocator<char>()));
        if (i % 3 == 0) {
            texts->erase(texts->begin());
        }
    }
}

}  // namespace
}  // namespace holdfast::test
