// Every container of containers.hpp, driven by random operations beside its counterpart of the standard library, while
// the memory that it lies in moves to other addresses between the operations.
#include <deque>
#include <list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/containers.hpp>

#include "arena.hpp"

namespace holdfast::test {
namespace {

using random = std::mt19937_64;

std::string random_text(random& source) {
    return std::string(source() % 60, static_cast<char>('a' + source() % 26)) + std::to_string(source() % 100);
}

template <class T>
struct sample;
template <>
struct sample<int> {
    using model = int;
    static model make(random& source) { return static_cast<int>(source() % 200); }
    static int put(const arena&, const model& value) { return value; }
};
template <>
struct sample<string> {
    using model = std::string;
    static model make(random& source) { return random_text(source); }
    static string put(const arena& heap, const model& value) { return {value.c_str(), heap.get_allocator<char>()}; }
};

bool same(int a, int b) { return a == b; }
bool same(const string& a, const std::string& b) { return std::string_view(a) == b; }
template <class A, class B, class C, class D>
bool same(const std::pair<A, B>& a, const std::pair<C, D>& b) {
    return same(a.first, b.first) && same(a.second, b.second);
}

template <class Container, class Model>
void expect_same_sequence(const Container& container, const Model& model) {
    ASSERT_EQ(container.size(), model.size());
    auto expected = model.begin();
    for (const auto& element : container) {
        ASSERT_TRUE(same(element, *expected));
        ++expected;
    }
}

// --- sequences
// ---------------------------------------------------------------------------------------------------------

template <class T>
class sequences : public ::testing::Test {};
using sequence_types =
    ::testing::Types<vector<int>, vector<string>, deque<int>, deque<string>, list<int>, list<string>,
                     stable_vector<int>, stable_vector<string>, small_vector<int, 5>, small_vector<string, 5>,
                     std::vector<int, allocator<int>>, std::vector<string, allocator<string>>,
                     std::deque<int, allocator<int>>, std::deque<string, allocator<string>>>;
TYPED_TEST_SUITE(sequences, sequence_types);

template <class Container, class Model, class Element>
void change_sequence(const arena& heap, Container& container, Model& model, random& source) {
    const auto value = sample<Element>::make(source);
    const auto position = static_cast<std::ptrdiff_t>(source() % (model.size() + 1));
    switch (source() % 12) {
        case 0:
        case 1:
        case 2:
        case 3:
            container.push_back(sample<Element>::put(heap, value));
            model.push_back(value);
            break;
        case 4:
        case 5:
            container.insert(std::next(container.begin(), position), sample<Element>::put(heap, value));
            model.insert(std::next(model.begin(), position), value);
            break;
        case 6:
        case 7:
            if (position < static_cast<std::ptrdiff_t>(model.size())) {
                container.erase(std::next(container.begin(), position));
                model.erase(std::next(model.begin(), position));
            }
            break;
        case 8: {
            Container copy(container, container.get_allocator());  // on the stack, its elements in the heap
            copy.push_back(sample<Element>::put(heap, value));
            container = copy;
            model.push_back(value);
            break;
        }
        case 9: {
            Container moved(std::move(container));
            expect_same_sequence(moved, model);
            container = std::move(moved);
            break;
        }
        case 10: {
            Container other(container.get_allocator());
            other.push_back(sample<Element>::put(heap, value));
            container.swap(other);
            container.swap(other);
            break;
        }
        default:
            if (model.size() > 60) {
                container.clear();
                model.clear();
            }
    }
}

TYPED_TEST(sequences, behave_as_the_standard_ones_while_memory_moves) {
    using element = typename TypeParam::value_type;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE(seed);
        random source(seed);
        arena heap;
        resident<TypeParam> container(heap, typename TypeParam::allocator_type(heap.get_allocator<element>()));
        std::vector<typename sample<element>::model> model;
        for (int step = 0; step < 400; ++step) {
            change_sequence<TypeParam, decltype(model), element>(heap, *container, model, source);
            if (step % 10 == 0) {
                heap.relocate();
            }
            ASSERT_NO_FATAL_FAILURE(expect_same_sequence(*container, model));
        }
    }
}

TEST(forward_lists, survive_relocation) {
    arena heap;
    resident<forward_list<int>> container(heap, heap.get_allocator<int>());
    std::list<int> model;
    random source(1);
    for (int step = 0; step < 500; ++step) {
        const int value = static_cast<int>(source() % 100);
        if (source() % 3 != 0) {
            container->push_front(value);
            model.push_front(value);
        } else if (!model.empty()) {
            container->pop_front();
            model.pop_front();
        }
        heap.relocate();
        ASSERT_NO_FATAL_FAILURE(expect_same_sequence(*container, model));
    }
    container->sort();
    model.sort();
    expect_same_sequence(*container, model);
}

TEST(vectors, of_bool_hold_bools) {
    arena heap;
    resident<vector<bool>> container(heap, heap.get_allocator<bool>());
    container->push_back(true);
    container->push_back(false);
    heap.relocate();
    EXPECT_TRUE(container->at(0));
    EXPECT_FALSE(container->at(1));
    static_assert(std::is_same_v<decltype((*container)[0]), bool&>);
}

// --- associative
// -------------------------------------------------------------------------------------------------------

template <class T>
struct element_of : std::type_identity<T> {};
template <class A, class B>
struct element_of<std::pair<A, B>> : std::type_identity<std::pair<std::remove_const_t<A>, B>> {};

template <class T>
class maps : public ::testing::Test {};
using map_types =
    ::testing::Types<map<int, string>, map<string, int>, flat_map<int, string>, flat_map<string, int>,
                     unordered_map<int, string>, unordered_map<string, int>, unordered_map<string, string>>;
TYPED_TEST_SUITE(maps, map_types);

template <class Container, class Model>
void expect_same_map(const arena& heap, const Container& container, const Model& model) {
    ASSERT_EQ(container.size(), model.size());
    for (const auto& [key, value] : model) {
        const auto found = container.find(sample<typename Container::key_type>::put(heap, key));
        ASSERT_TRUE(found != container.end());
        ASSERT_TRUE(same(found->first, key));
        ASSERT_TRUE(same(found->second, value));
    }
    ASSERT_EQ(static_cast<std::size_t>(std::distance(container.begin(), container.end())), model.size());
}

TYPED_TEST(maps, behave_as_std_map_while_memory_moves) {
    using key_sample = sample<typename TypeParam::key_type>;
    using value_sample = sample<typename TypeParam::mapped_type>;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE(seed);
        random source(seed);
        arena heap;
        resident<TypeParam> container(heap, heap.get_allocator<typename TypeParam::value_type>());
        std::map<typename key_sample::model, typename value_sample::model> model;
        for (int step = 0; step < 600; ++step) {
            const auto key = key_sample::make(source);
            const auto value = value_sample::make(source);
            switch (source() % 8) {
                case 0:
                case 1:
                case 2:
                case 3:
                    container->emplace(key_sample::put(heap, key), value_sample::put(heap, value));
                    model.emplace(key, value);
                    break;
                case 4:
                case 5: ASSERT_EQ(container->erase(key_sample::put(heap, key)), model.erase(key)); break;
                case 6: {
                    TypeParam moved(std::move(*container));
                    *container = std::move(moved);
                    break;
                }
                default: {
                    TypeParam copy(*container, container->get_allocator());
                    container->swap(copy);
                }
            }
            if (step % 7 == 0) {
                heap.relocate();
                ASSERT_NO_FATAL_FAILURE(expect_same_map(heap, *container, model));
            }
        }
        ASSERT_NO_FATAL_FAILURE(expect_same_map(heap, *container, model));
    }
}

template <class T>
class sets : public ::testing::Test {};
using set_types = ::testing::Types<set<string>, multiset<string>, flat_set<string>, flat_multiset<string>,
                                   unordered_set<string>, unordered_multiset<string>, set<int>, unordered_set<int>>;
TYPED_TEST_SUITE(sets, set_types);

TYPED_TEST(sets, behave_as_std_multiset_while_memory_moves) {
    using key_sample = sample<typename TypeParam::key_type>;
    random source(7);
    arena heap;
    resident<TypeParam> container(heap, heap.get_allocator<typename TypeParam::value_type>());
    std::multiset<typename key_sample::model> model;
    for (int step = 0; step < 1500; ++step) {
        const auto key = key_sample::make(source);
        if (source() % 3 != 0) {
            const std::size_t before = container->size();
            container->insert(key_sample::put(heap, key));
            if (container->size() != before) {
                model.insert(key);
            } else {
                ASSERT_EQ(model.count(key), 1U);
            }
        } else {
            ASSERT_EQ(container->erase(key_sample::put(heap, key)), model.erase(key));
        }
        if (step % 7 == 0) {
            heap.relocate();
        }
        ASSERT_EQ(container->size(), model.size());
        ASSERT_EQ(container->count(key_sample::put(heap, key)), model.count(key));
    }
    EXPECT_EQ((std::multiset<typename key_sample::model>(container->begin(), container->end())), model);
}

template <class T>
class multimaps : public ::testing::Test {};
using multimap_types = ::testing::Types<multimap<int, int>, flat_multimap<int, int>, unordered_multimap<int, int>>;
TYPED_TEST_SUITE(multimaps, multimap_types);

TYPED_TEST(multimaps, keep_all_values_of_a_key_while_memory_moves) {
    random source(3);
    arena heap;
    resident<TypeParam> container(heap, heap.get_allocator<typename TypeParam::value_type>());
    std::multimap<int, int> model;
    for (int step = 0; step < 1000; ++step) {
        const int key = static_cast<int>(source() % 50);
        container->emplace(key, step);
        model.emplace(key, step);
        if (step % 10 == 0) {
            heap.relocate();
            const int victim = static_cast<int>(source() % 50);
            ASSERT_EQ(container->erase(victim), model.erase(victim));
        }
    }
    using elements = std::multiset<std::pair<int, int>>;
    EXPECT_EQ(elements(container->begin(), container->end()), elements(model.begin(), model.end()));
}

// --- nesting, strings, other heaps
// -------------------------------------------------------------------------------------

TEST(nesting, graph_of_maps_of_vectors_of_strings_survives_relocation) {
    using names = vector<string, scoped_allocator<string>>;
    using graph = unordered_map<int, names, hash<int>, equal_to<int>, scoped_allocator<std::pair<const int, names>>>;
    arena heap;
    resident<graph> container(heap, heap.get_allocator<std::byte>());
    for (int i = 0; i < 1000; ++i) {
        (*container)[i % 100].emplace_back(
            ("a name that is too long for the string itself " + std::to_string(i)).c_str());
    }
    container->try_emplace(100, 3);  // a vector of three, with the allocator of the map
    heap.relocate();
    ASSERT_EQ(container->size(), 101U);
    EXPECT_EQ(container->at(100).size(), 3U);
    container->erase(100);
    for (auto& [key, list] : *container) {
        ASSERT_EQ(list.size(), 10U);
        EXPECT_EQ(std::string_view(list[3]),
                  "a name that is too long for the string itself " + std::to_string(key + 300));
        EXPECT_TRUE(heap.contains(list[3].data()));
    }
}

TEST(strings, short_and_long_ones_survive_relocation) {
    for (const std::size_t length : {0U, 1U, 15U, 16U, 22U, 23U, 24U, 1000U}) {
        SCOPED_TRACE(length);
        arena heap;
        std::string model(length, 'x');
        resident<string> text(heap, model.c_str(), heap.get_allocator<char>());
        heap.relocate();
        EXPECT_EQ(std::string_view(text->data(), text->size()), model);
        EXPECT_TRUE(heap.contains(text->data()));
        string moved(std::move(*text));
        EXPECT_EQ(std::string_view(moved.data(), moved.size()), model);
        *text = std::move(moved);
        text->append(40, 'y');
        text->insert(0, "z");
        model = "z" + model + std::string(40, 'y');
        heap.relocate();
        EXPECT_EQ(std::string_view(text->data(), text->size()), model);
        string other("other", heap.get_allocator<char>());
        text->swap(other);
        EXPECT_EQ(std::string_view(text->data(), text->size()), "other");
        EXPECT_EQ(std::string_view(other.data(), other.size()), model);
        string(heap.get_allocator<char>())
            .swap(other);  // its long block goes before the memory moves: `other` itself stays where it is
        text->shrink_to_fit();
        heap.relocate();
        EXPECT_EQ(std::string_view(text->data(), text->size()), "other");
    }
}

TEST(strings, are_looked_up_by_views_and_literals_without_building_one) {
    arena heap;
    resident<unordered_map<string, int>> hashed(heap, heap.get_allocator<std::byte>());
    resident<map<string, int>> ordered(heap, heap.get_allocator<std::byte>());
    const std::string_view key = "a key that is too long for the string itself";
    hashed->emplace(string(key.data(), heap.get_allocator<char>()), 1);
    ordered->emplace(string(key.data(), heap.get_allocator<char>()), 1);
    const std::size_t blocks = heap.blocks();
    EXPECT_EQ(hashed->find(key)->second, 1);
    EXPECT_EQ(hashed->find("a key that is too long for the string itself")->second, 1);
    EXPECT_EQ(hashed->count(std::string("another")), 0U);
    EXPECT_EQ(ordered->find(key)->second, 1);
    EXPECT_EQ(ordered->count("another"), 0U);
    EXPECT_EQ(heap.blocks(), blocks);
    EXPECT_EQ(hash<string>{}(hashed->begin()->first), hash<std::string_view>{}(key));
    EXPECT_EQ(boost::hash<string>{}(hashed->begin()->first), boost::hash<string>{}(ordered->begin()->first));
}

/// Inserts each element of a sequence in each place. `spare`: of so many elements, so that it does not grow.
template <class Container, class T>
void insert_own_elements(std::size_t spare) {
    using model = std::vector<typename sample<T>::model>;
    for (std::size_t from = 0; from < 6; ++from) {
        for (std::size_t to = 0; to <= 6; ++to) {
            for (int how = 0; how < 3; ++how) {
                arena heap;
                random source(7);
                Container tested(heap.get_allocator<T>());
                model known;
                if constexpr (requires { tested.reserve(spare); }) {
                    tested.reserve(spare);
                }
                for (int i = 0; i < 6; ++i) {
                    known.push_back(sample<T>::make(source));
                    tested.push_back(sample<T>::put(heap, known.back()));
                }
                const auto place = tested.begin() + static_cast<std::ptrdiff_t>(to);
                const auto own = known[from];
                switch (how) {
                    case 0: tested.insert(place, tested[from]); break;
                    case 1: tested.emplace(place, tested[from]); break;
                    default: tested.insert(place, 3, tested[from]);
                }
                known.insert(known.begin() + static_cast<std::ptrdiff_t>(to), how < 2 ? 1 : 3, own);
                expect_same_sequence(tested, known);
            }
        }
    }
}
/// Was: another element of the sequence, or a mixture.
TEST(containers, take_elements_of_themselves) {
    for (const std::size_t spare : {0U, 6U, 20U}) {
        insert_own_elements<vector<int>, int>(spare);
        insert_own_elements<vector<string>, string>(spare);
        insert_own_elements<small_vector<int, 4>, int>(spare);
        insert_own_elements<small_vector<string, 16>, string>(spare);
    }
    insert_own_elements<deque<int>, int>(0);
    insert_own_elements<deque<string>, string>(0);
    insert_own_elements<stable_vector<string>, string>(0);
}

/// Was: the value was gone.
TEST(containers, leave_a_value_to_the_caller_where_there_is_no_room) {
    arena heap;
    const auto memory = heap.get_allocator<char>();
    const std::string text(100, 'x');
    string value(text.c_str(), memory);
    vector<string> texts(memory);
    unordered_set<string> set(memory);
    unordered_map<string, int> map(memory);
    texts.emplace_back("an element");
    texts.shrink_to_fit();
    std::vector<void*> filling;
    for (std::size_t bytes = arena::size; bytes > 0;) {
        try {
            filling.push_back(heap.allocate(bytes, 1));
        } catch (const std::bad_alloc&) {
            bytes /= 2;
        }
    }
    const auto expect_refused = [&](const auto& call) {
        EXPECT_THROW(call(), std::bad_alloc);
        EXPECT_EQ(std::string_view(value), text);
    };
    expect_refused([&] { texts.push_back(std::move(value)); });
    expect_refused([&] { texts.insert(texts.begin(), std::move(value)); });
    expect_refused([&] { set.insert(std::move(value)); });
    expect_refused([&] { map.try_emplace(std::move(value), 1); });
    EXPECT_EQ(texts.size(), 1U);
    EXPECT_TRUE(set.empty() && map.empty());
    for (void* const each : filling) {
        heap.deallocate(each);
    }
}

TEST(containers, move_between_heaps_by_copying_elements) {
    arena one;
    arena two;
    resident<vector<string>> from(one, one.get_allocator<string>());
    resident<vector<string>> to(two, two.get_allocator<string>());
    from->emplace_back("text that is too long for the string itself", one.get_allocator<char>());
    *to = std::move(*from);
    EXPECT_TRUE(two.contains(to->data()));
    resident<map<int, int>> map_from(one, one.get_allocator<std::byte>());
    map_from->emplace(1, 2);
    resident<map<int, int>> map_to(two, std::move(*map_from), two.get_allocator<std::byte>());
    EXPECT_TRUE(two.contains(&*map_to->begin()));
    one.relocate();
    two.relocate();
    EXPECT_EQ(map_to->at(1), 2);
}

TEST(containers, have_the_same_names_in_the_namespace_container) {
    static_assert(std::is_same_v<container::vector<int>, vector<int>>);
    static_assert(std::is_same_v<container::string, string>);
    static_assert(std::is_same_v<container::map<int, int>, map<int, int>>);
    static_assert(std::is_same_v<container::unordered_map<int, int>, unordered_map<int, int>>);
    static_assert(std::is_same_v<container::flat_set<int>, flat_set<int>>);
}

}  // namespace
}  // namespace holdfast::test
