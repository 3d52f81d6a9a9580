// Ordinary containers with raw pointers, in a heap that comes back where it was.
#include <csignal>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/persistent_malloc.hpp>

#include "api/manager_test_support.hpp"
#include "base/process_test_support.hpp"

namespace holdfast {
namespace {

using testing::IsEmpty;

using text = std::basic_string<char, std::char_traits<char>, raw_allocator<char>>;
using numbers = std::vector<int, raw_allocator<int>>;
using ordered = std::map<int, text, std::less<>, raw_allocator<std::pair<const int, text>>>;
using hashed =
    std::unordered_map<int, numbers, std::hash<int>, std::equal_to<>, raw_allocator<std::pair<const int, numbers>>>;

class persistent_malloc_test : public manager_test {
protected:
    static open_options options(durability wanted = durability::commit) {
        open_options all = small_options();
        all.durability = wanted;
        all.accept_process_crash_only = true;
        return all;
    }
    static void fill(persistent_malloc& heap, int count) {
        auto* const words = heap.find_or_construct<ordered>("words", heap.get_allocator<ordered::value_type>());
        auto* const groups = heap.find_or_construct<hashed>("groups", 8U, std::hash<int>(), std::equal_to<>(),
                                                            heap.get_allocator<hashed::value_type>());
        for (int i = 0; i < count; ++i) {
            const text word(std::to_string(i * 7).c_str(), heap.get_allocator<char>());
            words->insert_or_assign(i, word + " and more than fits into a short string");
            groups->try_emplace(i % 100, heap.get_allocator<int>()).first->second.push_back(i);
        }
    }
    static void expect_filled(const persistent_malloc& heap, int count) {
        const auto* const words = heap.find<ordered>("words");
        const auto* const groups = heap.find<hashed>("groups");
        ASSERT_NE(words, nullptr);
        ASSERT_NE(groups, nullptr);
        ASSERT_EQ(words->size(), static_cast<std::size_t>(count));
        for (const auto& [key, word] : *words) {
            ASSERT_EQ(std::string(word), std::to_string(key * 7) + " and more than fits into a short string");
        }
        std::size_t all = 0;
        for (const auto& [key, members] : *groups) {
            all += members.size();
            ASSERT_TRUE(std::ranges::all_of(members, [key = key](int one) { return one % 100 == key; }));
        }
        ASSERT_EQ(all, static_cast<std::size_t>(count));
    }
};

TEST_F(persistent_malloc_test, containers_are_found_again) {
    void* address = nullptr;
    for (int round = 0; round < 3; ++round) {
        persistent_malloc heap(path(), options());
        if (round == 0) {
            address = heap.manager().get_address();
            fill(heap, 3000);
        }
        EXPECT_EQ(heap.manager().get_address(), address);
        expect_filled(heap, 3000);
        EXPECT_THAT(heap.manager().check(false), IsEmpty());
    }
    persistent_malloc heap(path(), options());
    EXPECT_TRUE(heap.destroy<ordered>("words"));
    EXPECT_TRUE(heap.destroy<hashed>("groups"));
    EXPECT_FALSE(heap.destroy<hashed>("groups"));
    EXPECT_EQ(heap.find<ordered>("words"), nullptr);
    EXPECT_TRUE(heap.manager().all_memory_deallocated());
}

TEST_F(persistent_malloc_test, tracing_follows_their_raw_pointers_after_a_kill) {
    persistent_malloc(path(), options(durability::collect)).manager().close();
    const base::process_end end = base::run_in_child([&] {
        persistent_malloc heap(path(), options(durability::collect));
        fill(heap, 3000);
        for (int i = 0; i < 2000; ++i) {
            static_cast<void>(heap.allocate(40));
        }
        ::raise(SIGKILL);
    });
    ASSERT_TRUE(end.was_killed()) << end;
    persistent_malloc heap(path(), options(durability::collect));
    expect_filled(heap, 3000);
    EXPECT_THAT(heap.manager().check(false), IsEmpty());
    heap.destroy<ordered>("words");
    heap.destroy<hashed>("groups");
    // Conservative: an address that is left over in a block that is reached keeps what it leads to. A few.
    std::size_t left = 0;
    heap.manager().for_each_block([&left](const block_info&) { ++left; });
    EXPECT_LT(left, 100U) << "of 2000 blocks that nothing reached";
}

TEST_F(persistent_malloc_test, blocks_of_a_typed_allocator_have_its_type) {
    persistent_malloc heap(path(), options());
    using typed = std::vector<int*, typed_raw_allocator<int*, 9>>;
    auto& all = *heap.find_or_construct<typed>("all", heap.get_allocator<int*>());
    all.resize(100);
    EXPECT_EQ(heap.manager().type_of(all.data()), 9U);
    using ordinary = std::vector<int*, raw_allocator<int*>>;
    auto& others = *heap.find_or_construct<ordinary>("others", heap.get_allocator<int*>());
    others.resize(100);
    EXPECT_EQ(heap.manager().type_of(others.data()), 0U);
}

TEST_F(persistent_malloc_test, refuses_a_heap_that_may_move) {
    create().close();
    EXPECT_EQ(reason_of([this] { persistent_malloc heap(path(), options()); }), errc::invalid_argument);
}

TEST_F(persistent_malloc_test, says_who_has_its_addresses) {
    open_options fixed = options();
    fixed.base_address = persistent_malloc(path(), options()).manager().get_address();
    const manager other(create_only, path("other"), fixed);
    EXPECT_EQ(reason_of([this] { persistent_malloc heap(path(), options()); }), errc::address_taken);
}

TEST_F(persistent_malloc_test, has_several_heaps_at_once) {
    std::list<persistent_malloc> heaps;
    for (const char* const name : {"a", "b", "c"}) {
        heaps.emplace_back(path(name), options());
        fill(heaps.back(), 100);
    }
    for (const persistent_malloc& heap : heaps) {
        expect_filled(heap, 100);
    }
}

}  // namespace
}  // namespace holdfast
