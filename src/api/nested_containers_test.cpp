// Containers of containers: what is in a container lies in the container's heap, whoever made it and wherever it came
// from.
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "manager_test_support.hpp"

namespace holdfast {
namespace {

const char* const sentence = "a text that no string keeps within itself";

class nested_containers_test : public manager_test {
protected:
    using words = vector<vector<string>>;
    using index = map<string, vector<int>>;

    /// A container in the heap, by name and without a word about allocators.
    template <class T>
    [[nodiscard]] static T& make(manager& heap) {
        return *heap.construct<T>("it")();
    }
    static void fill(manager& heap, words& to) {
        to.emplace_back();
        to.resize(3);
        to.emplace_back(heap.get_allocator<string>());  // passed by the program, as before
        for (vector<string>& each : to) {
            each.emplace_back(sentence);
        }
    }
    template <class Map>
    static void fill(manager& heap, Map& to) {
        const string key(sentence, heap.get_allocator<char>());
        to.try_emplace(key).first->second.push_back(1);
        to.emplace(string("b", heap.get_allocator<char>()), vector<int>(heap.get_allocator<int>()))
            .first->second.assign(100, 2);
    }
    /// Every part of it is of the heap.
    static void expect_within(const manager& heap, const words& all) {
        for (const vector<string>& each : all) {
            ASSERT_EQ(each.get_allocator().key(), heap.get_segment_manager()->key());
            for (const string& one : each) {
                EXPECT_EQ(one, sentence);
                EXPECT_NO_THROW(static_cast<void>(heap.get_handle_from_address(one.data())));
            }
        }
    }
    template <class Map>
    static void expect_within(const manager& heap, const Map& all) {
        EXPECT_EQ(all.size(), 2U);
        for (const auto& [key, numbers] : all) {
            EXPECT_EQ(key.get_allocator().key(), heap.get_segment_manager()->key());
            ASSERT_EQ(numbers.get_allocator().key(), heap.get_segment_manager()->key());
            EXPECT_NO_THROW(static_cast<void>(heap.get_handle_from_address(numbers.data())));
        }
    }
    /// Copies and moves from one heap to another, by constructors and by assignment; the first heap goes.
    template <class T>
    void expect_to_survive_the_heap_that_it_came_from() {
        manager kept = create("kept");
        {
            manager gone = create("gone");
            T& source = make<T>(gone);
            fill(gone, source);
            expect_within(gone, source);
            kept.construct<T>("copied")(source, kept.get_allocator<char>());
            kept.construct<T>("assigned")(kept.get_allocator<char>());
            *kept.find<T>("assigned").first = source;
            T moved(source, gone.get_allocator<char>());
            kept.construct<T>("moved")(std::move(moved), kept.get_allocator<char>());
            T moved_by_assignment(source, gone.get_allocator<char>());
            kept.construct<T>("moved by assignment")(kept.get_allocator<char>());
            *kept.find<T>("moved by assignment").first = std::move(moved_by_assignment);
        }
        for (const char* name : {"copied", "assigned", "moved", "moved by assignment"}) {
            SCOPED_TRACE(name);
            expect_within(kept, *kept.find<T>(name).first);
        }
    }
};

TEST_F(nested_containers_test, elements_of_vectors_stayed_in_the_heap_that_they_were_moved_from) {
    expect_to_survive_the_heap_that_it_came_from<words>();
}

TEST_F(nested_containers_test, elements_of_maps_stayed_in_the_heap_that_they_were_moved_from) {
    expect_to_survive_the_heap_that_it_came_from<index>();
}

/// Was: a small_vector took no allocator of a heap, so it compiled neither by name nor within another container.
TEST_F(nested_containers_test, small_vectors_took_no_allocator_of_a_heap) {
    manager gone = create("gone");
    manager kept = create("kept");
    using words_of = small_vector<string, 2>;
    auto& source = make<map<int, words_of>>(gone);
    for (int i = 0; i < 3; ++i) {
        source[1].emplace_back(sentence);
    }
    source[2].emplace_back(sentence);
    auto& target = make<map<int, words_of>>(kept);
    target = source;
    auto& alone = *kept.construct<words_of>("alone")();
    alone.emplace_back(sentence);
    alone.swap(source[1]);
    ASSERT_EQ(alone.size(), 3U);
    ASSERT_EQ(source[1].size(), 1U);
    EXPECT_TRUE(gone.belongs_to_segment(source[1].front().data()));
    const words_of passed(2, string(sentence, kept.get_allocator<char>()), kept.get_allocator<string>());
    for (const words_of& each : {std::cref(alone), std::cref(target[1]), std::cref(target[2]), std::cref(passed)}) {
        for (const string& one : each) {
            EXPECT_EQ(one, sentence);
            EXPECT_TRUE(kept.belongs_to_segment(one.data()));
        }
    }
}

TEST_F(nested_containers_test, trees_were_taken_for_allocators_and_refused) {
    manager gone = create("gone");
    manager kept = create("kept");
    auto& source = make<vector<map<int, string>>>(gone);
    source.resize(1);
    source.front().emplace(1, string(sentence, gone.get_allocator<char>()));
    auto& target = make<vector<map<int, string>>>(kept);
    target.push_back(source.front());
    target.insert(target.begin(), std::move(source.front()));
    auto& sets = *kept.construct<deque<set<string>>>("sets")();
    sets.push_back(set<string>({string(sentence, gone.get_allocator<char>())}, gone.get_allocator<string>()));
    for (const auto& each : target) {
        ASSERT_EQ(each.size(), 1U);
        EXPECT_EQ(each.at(1), sentence);
        EXPECT_TRUE(kept.belongs_to_segment(each.at(1).data()));
    }
    EXPECT_TRUE(kept.belongs_to_segment(sets.front().begin()->data()));
}

TEST_F(nested_containers_test, elements_of_hash_tables_stayed_in_the_heap_that_they_were_moved_from) {
    expect_to_survive_the_heap_that_it_came_from<unordered_map<string, vector<int>>>();
}

TEST_F(nested_containers_test, elements_of_flat_maps_stayed_in_the_heap_that_they_were_moved_from) {
    expect_to_survive_the_heap_that_it_came_from<flat_map<string, vector<int>>>();
}

struct person {
    string name;
    int age = 0;
};

TEST_F(nested_containers_test, structs_kept_strings_in_the_heap_that_they_were_moved_from) {
    manager gone = create("gone");
    manager kept = create("kept");
    auto& source = *gone.construct<vector<person>>("people")();
    source.push_back({string(sentence, gone.get_allocator<char>()), 7});
    source.push_back(source.front());
    auto& target = *kept.construct<vector<person>>("people")();
    target.push_back({string(sentence, kept.get_allocator<char>()), 8});
    const usage before = usage_of(kept);
    EXPECT_EQ(reason_of([&] { target.push_back(source.front()); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { target.push_back(std::move(source.front())); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { target.push_back({string(gone.get_allocator<char>()), 9}); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { vector<person>(source, kept.get_allocator<person>()); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { vector<person>(std::move(source), kept.get_allocator<person>()); }),
              errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { kept.construct<person>("one")(source.front()); }), errc::invalid_argument);
    EXPECT_EQ(usage_of(kept), before);
    ASSERT_EQ(source.size(), 2U);
    EXPECT_EQ(source.front().name, sentence);
    ASSERT_EQ(target.size(), 1U);
}

TEST_F(nested_containers_test, optionals_and_pairs_kept_strings_in_the_heap_that_they_were_moved_from) {
    manager gone = create("gone");
    manager kept = create("kept");
    const string text(sentence, gone.get_allocator<char>());
    auto& options = *kept.construct<unordered_map<int, std::optional<string>>>("options")();
    EXPECT_EQ(reason_of([&] { options.emplace(1, text); }), errc::invalid_argument);
    options.emplace(2, std::nullopt);
    options.emplace(3, string(sentence, kept.get_allocator<char>()));
    EXPECT_EQ(options.size(), 2U);
    auto& tuples = *kept.construct<list<std::tuple<int, string>>>("tuples")();
    tuples.emplace_back(1, text);  // a tuple takes an allocator for its elements
    EXPECT_EQ(std::get<1>(tuples.front()).get_allocator().key(), kept.get_segment_manager()->key());
    auto& people = *kept.construct<map<int, person>>("people")();
    EXPECT_EQ(reason_of([&] { people.emplace(1, person{text, 1}); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { people.try_emplace(1, person{text, 1}); }), errc::invalid_argument);
    EXPECT_TRUE(people.empty());
}

TEST_F(nested_containers_test, an_element_took_the_allocator_of_another_heap) {
    manager other = create("other");
    manager heap = create("heap");
    auto& held = *heap.construct<vector<string>>("words")();
    EXPECT_EQ(reason_of([&] { held.emplace_back(sentence, other.get_allocator<char>()); }), errc::invalid_argument);
    held.emplace_back(sentence, heap.get_allocator<char>());
    EXPECT_EQ(held.size(), 1U);
}

TEST_F(nested_containers_test, structs_stay_within_one_heap_beside_an_open_reader_and_a_closed_heap) {
    create("read").close();
    manager closed = create("closed");
    closed.close();
    const manager reader(open_read_only, path("read"));
    manager heap = create("heap");
    auto& people = *heap.construct<vector<person>>("people")();
    for (int i = 0; i < 100; ++i) {
        people.push_back({string(sentence, heap.get_allocator<char>()), i});
    }
    people.erase(people.begin());
    const vector<person> copy(people);
    EXPECT_EQ(copy.back().name, sentence);
}

TEST_F(nested_containers_test, a_map_of_vectors_did_not_compile_without_scoped_allocators) {
    manager heap = create();
    auto& graph = *heap.construct<map<string, vector<int>>>("graph")();
    graph[string("a", heap.get_allocator<char>())].push_back(7);
    auto& table = *heap.construct<unordered_map<int, vector<string>>>("table")();
    table[3].emplace_back(sentence);
    EXPECT_EQ(graph.begin()->second.at(0), 7);
    EXPECT_EQ(table[3].at(0), sentence);
    EXPECT_EQ(*heap.construct<string>("text")(sentence), sentence);
    heap.close();
    const manager again = open();
    EXPECT_EQ((again.find<map<string, vector<int>>>("graph").first->begin()->second.at(0)), 7);
    EXPECT_EQ((again.find<unordered_map<int, vector<string>>>("table").first->at(3).at(0)), sentence);
}

TEST_F(nested_containers_test, a_second_half_that_throws_leaves_no_first_half) {
    manager heap = create();
    auto& table = *heap.construct<map<string, vector<int>>>("table")();
    const usage before = usage_of(heap);
    EXPECT_THROW(table.try_emplace(string(sentence, heap.get_allocator<char>()), std::size_t{1} << 60U),
                 std::exception);
    EXPECT_EQ(usage_of(heap), before);
    EXPECT_TRUE(table.empty());
}

}  // namespace
}  // namespace holdfast
