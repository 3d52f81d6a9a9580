// Swaps, merges and splices between the containers of two heaps. What Boost does there: it exchanges the memory
// whatever the allocators, so that each container holds memory of the other heap; or it aborts the program.
#include <iterator>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "manager_test_support.hpp"

namespace holdfast {
namespace {

using testing::IsEmpty;

const char* const swapped_text = "a text that no string keeps within itself, of number ";

template <class T>
T element_of(manager& heap, int number) {
    if constexpr (std::is_same_v<T, char>) {
        return static_cast<char>('a' + number);
    } else if constexpr (requires { typename T::first_type; }) {
        return T(number, element_of<string>(heap, number));
    } else {
        return string((swapped_text + std::to_string(number)).c_str(), heap.get_allocator<char>());
    }
}

template <class Container>
class containers_swap_test : public manager_test {
protected:
    using element = typename Container::value_type;

    static void fill(manager& heap, Container& to, int from, int count) {
        for (int i = from; i < from + count; ++i) {
            to.insert(to.end(), element_of<element>(heap, i));
        }
    }
    static void expect_to_have(manager& heap, const Container& all, int from, int count) {
        Container expected(heap.get_allocator<element>());
        fill(heap, expected, from, count);
        EXPECT_TRUE(all == expected);
        for (const element& each : all) {
            ASSERT_TRUE(heap.belongs_to_segment(&each)) << "in memory of another heap";
        }
    }
    /// Of two heaps that have each a container.
    template <class Swap>
    void expect_to_be_swapped(Swap swaps) {
        constexpr int few = 3;
        constexpr int many = 60;
        {
            manager one = create("one");
            manager other = create("other");
            auto& a = *one.construct<Container>("it")();
            auto& b = *other.construct<Container>("it")();
            fill(one, a, 0, few);
            fill(other, b, 20, many);
            swaps(a, b);
            expect_to_have(one, a, 20, many);
            expect_to_have(other, b, 0, few);
            swaps(a, b);
            swaps(a, a);
            expect_to_have(one, a, 0, few);
            swaps(a, b);
        }
        {
            manager one = open("one");
            expect_to_have(one, *one.find<Container>("it").first, 20, many);
            one.destroy<Container>("it");
            EXPECT_TRUE(one.all_memory_deallocated());
            EXPECT_THAT(one.check(true), IsEmpty());
        }
        manager other = open("other");
        expect_to_have(other, *other.find<Container>("it").first, 0, few);
        manager::remove(path("one"));
        other.close();
        manager::remove(path("other"));
    }
};

using swapped_containers = testing::Types<vector<string>, small_vector<string, 5>, deque<string>, list<string>,
                                          stable_vector<string>, map<int, string>, set<string>, flat_map<int, string>,
                                          flat_multiset<string>, unordered_map<int, string>>;
TYPED_TEST_SUITE(containers_swap_test, swapped_containers);

TYPED_TEST(containers_swap_test, a_swap_left_elements_in_the_heap_that_they_came_from) {
    this->expect_to_be_swapped([](TypeParam& a, TypeParam& b) { a.swap(b); });
    this->expect_to_be_swapped([](TypeParam& a, TypeParam& b) {
        using std::swap;
        swap(a, b);
    });
}

class nodes_of_two_heaps_test : public manager_test {
protected:
    template <class Container>
    Container& make(manager& heap) {
        auto& made = *heap.construct<Container>(anonymous_instance)();
        for (int i = 0; i < 3; ++i) {
            made.insert(made.end(), element_of<typename Container::value_type>(heap, i));
        }
        return made;
    }
    template <class Call>
    static void expect_refused(Call&& call) {
        EXPECT_EQ(reason_of(std::forward<Call>(call)), errc::invalid_argument);
    }

    manager one_ = create("one");
    manager other_ = create("other");
};

TEST_F(nodes_of_two_heaps_test, lists_took_nodes_of_another_heap) {
    auto& a = make<list<string>>(one_);
    auto& b = make<list<string>>(other_);
    auto& near = make<list<string>>(one_);
    expect_refused([&] { a.splice(a.begin(), b); });
    expect_refused([&] { a.splice(a.begin(), std::move(b)); });
    expect_refused([&] { a.splice(a.begin(), b, b.begin()); });
    expect_refused([&] { a.splice(a.begin(), b, b.begin(), b.end()); });
    expect_refused([&] { a.merge(b); });
    EXPECT_EQ(a.size(), 3U);
    EXPECT_EQ(b.size(), 3U);
    a.splice(a.begin(), near, near.begin());
    a.merge(near);
    EXPECT_EQ(a.size(), 6U);
    auto& c = *one_.construct<forward_list<string>>("c")();
    auto& d = *other_.construct<forward_list<string>>("d")();
    d.push_front(element_of<string>(other_, 1));
    expect_refused([&] { c.splice_after(c.before_begin(), d); });
    expect_refused([&] { c.merge(d); });
    c.swap(d);
    EXPECT_TRUE(d.empty());
    EXPECT_EQ(c.front(), element_of<string>(one_, 1));
    EXPECT_TRUE(one_.belongs_to_segment(&c.front()));
}

TEST_F(nodes_of_two_heaps_test, trees_took_nodes_of_another_heap) {
    auto& a = make<map<int, string>>(one_);
    auto& b = make<map<int, string>>(other_);
    auto& near = make<map<int, string>>(one_);
    auto& several = make<multimap<int, string>>(other_);
    expect_refused([&] { a.merge(b); });
    expect_refused([&] { a.merge(several); });
    auto node = b.extract(1);
    expect_refused([&] { a.insert(std::move(node)); });
    expect_refused([&] { a.insert(a.begin(), std::move(node)); });
    EXPECT_FALSE(node.empty()) << "it stays where it was";
    b.insert(std::move(node));
    EXPECT_EQ(b.size(), 3U);
    a.erase(1);
    a.merge(near);
    a.erase(2);
    a.insert(near.extract(2));
    a.emplace(9, element_of<string>(one_, 9));
    EXPECT_EQ(a.size(), 4U);
    auto& c = make<set<string>>(one_);
    auto& d = make<set<string>>(other_);
    expect_refused([&] { c.merge(d); });
    expect_refused([&] { c.insert(d.extract(d.begin())); });
}

/// Was: nothing refused them.
TEST_F(nodes_of_two_heaps_test, hash_tables_took_nodes_of_another_heap) {
    auto& a = make<unordered_map<int, string>>(one_);
    auto& b = make<unordered_map<int, string>>(other_);
    auto& several = make<unordered_multiset<string>>(one_);
    auto& more = make<unordered_multiset<string>>(other_);
    a.erase(1);
    auto node = b.extract(1);
    expect_refused([&] { a.insert(std::move(node)); });
    expect_refused([&] { a.insert(a.begin(), std::move(node)); });
    EXPECT_FALSE(node.empty()) << "it stays where it was";
    EXPECT_TRUE(b.insert(std::move(node)).inserted);
    expect_refused([&] { several.insert(more.extract(more.begin())); });
    EXPECT_EQ(a.size(), 2U);
    EXPECT_EQ(b.size(), 3U);
    EXPECT_EQ(several.size(), 3U);
}

/// Strings are Boost's own type, of which swap(a, b) and the member are ours. Was: the member took the memory as it is.
TEST_F(nodes_of_two_heaps_test, swapped_strings_kept_the_memory_of_the_other_heap) {
    const auto expect_swapped = [this](const auto& swaps) {
        auto& a = *one_.construct<string>(anonymous_instance)(swapped_text);
        auto& b = *other_.construct<string>(anonymous_instance)("short");
        swaps(a, b);
        EXPECT_EQ(a, "short");
        EXPECT_EQ(b, swapped_text);
        EXPECT_TRUE(other_.belongs_to_segment(b.data()));
        auto& wide = *one_.construct<u16string>(anonymous_instance)(std::u16string(50, u'w').c_str());
        auto& other_wide = *other_.construct<u16string>(anonymous_instance)(std::u16string(60, u'v').c_str());
        swaps(wide, other_wide);
        EXPECT_EQ(wide.size(), 60U);
        EXPECT_TRUE(one_.belongs_to_segment(wide.data()));
        EXPECT_TRUE(other_.belongs_to_segment(other_wide.data()));
        using either = basic_string<char, std::char_traits<char>, fallback_allocator<char>>;
        either here(swapped_text, one_.get_allocator<char>());
        either there("without a heap");
        swaps(here, there);
        EXPECT_EQ(there, swapped_text);
        EXPECT_EQ(here, "without a heap");
        EXPECT_FALSE(one_.belongs_to_segment(there.data()));
        auto& near = *other_.construct<string>(anonymous_instance)(std::string(100, 'x').c_str());
        const char* const before = near.data();
        swaps(near, b);
        EXPECT_EQ(b.data(), before) << "within one heap nothing is copied";
        EXPECT_EQ(near, swapped_text);
        swaps(near, near);
        EXPECT_EQ(near, swapped_text);
    };
    expect_swapped([](auto& a, auto& b) {
        using std::swap;
        swap(a, b);
    });
    expect_swapped([](auto& a, auto& b) { a.swap(b); });
}

}  // namespace
}  // namespace holdfast
