// A heap that is opened read-only: every call that would change it fails, and says that it is read-only.
#include <string>

#include <gmock/gmock.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "api/manager_test_support.hpp"

namespace holdfast {
namespace {

class manager_read_only_test : public manager_test {
protected:
    manager_read_only_test() {
        manager heap = create();
        heap.set_description("the heap");
        heap.set_instance_description(heap.construct<int>("number")(1), "the number");
        heap.construct<vector<int>>("numbers")(heap.get_allocator<int>())->assign(100, 7);
        heap.construct<map<int, int>>("pairs")(heap.get_allocator<std::pair<const int, int>>())->emplace(1, 1);
        heap.construct<unordered_map<int, int>>("hashed")(heap.get_allocator<std::pair<const int, int>>())
            ->emplace(1, 1);
        heap.construct<string>("text")("a text that is too long to lie within the string itself",
                                       heap.get_allocator<char>());
        heap.construct<deque<int>>("deque")(heap.get_allocator<int>())->assign(10, 7);
        heap.construct<list<int>>("list")(heap.get_allocator<int>())->assign(10, 7);
        heap.construct<forward_list<int>>("forward_list")(heap.get_allocator<int>())->assign(10, 7);
        heap.construct<stable_vector<int>>("stable_vector")(heap.get_allocator<int>())->assign(10, 7);
        heap.construct<flat_set<int>>("flat_set")(heap.get_allocator<int>())->insert(1);
        heap.root(3) = heap.find<int>("number").first;
    }
};

/// Was: the description changed, without an error, until the heap was closed.
TEST_F(manager_read_only_test, refuses_descriptions) {
    manager heap(open_read_only, path());
    const int* const number = heap.find<int>("number").first;
    EXPECT_EQ(reason_of([&] { heap.set_description("another"); }), errc::read_only);
    EXPECT_EQ(reason_of([&] { heap.set_instance_description(number, "another"); }), errc::read_only);
    EXPECT_EQ(heap.get_description(), "the heap");
    EXPECT_EQ(heap.get_instance_description(number), "the number");
}

/// Was: a hash of a pair copied it, into the heap: error(not_found) in a reader.
TEST_F(manager_read_only_test, finds_keys_that_are_pairs) {
    using key = std::pair<string, int>;
    using map_of_pairs = unordered_map<key, int>;
    {
        manager heap = open();
        const string text("a text that is too long to lie within the string itself", heap.get_allocator<char>());
        auto* const made = heap.construct<map_of_pairs>("by_pair")(heap.get_allocator<std::pair<const key, int>>());
        made->try_emplace(key(text, 1), 7);
        const auto before = usage_of(heap);
        EXPECT_EQ(made->count(made->begin()->first), 1U);
        EXPECT_EQ(usage_of(heap), before);
    }
    const manager heap(open_read_only, path());
    const map_of_pairs& found = *heap.find<map_of_pairs>("by_pair").first;
    EXPECT_EQ(found.at(found.begin()->first), 7);
}

/// Was: roots could be set, without an error, and had their old values when the heap was opened again.
TEST_F(manager_read_only_test, hands_roots_out_to_be_read_only) {
    manager heap(open_read_only, path());
    EXPECT_EQ(reason_of([&] { heap.root(3) = nullptr; }), errc::read_only);
    EXPECT_EQ(std::as_const(heap).root(3).get(), heap.find<int>("number").first);
    EXPECT_EQ(reason_of([&] { static_cast<void>(std::as_const(heap).root(manager::root_count)); }),
              errc::invalid_argument);
}

template <class T, class Change>
void expect_untouched(manager& writer, const manager& reader, const char* name, Change change) {
    T& container = *reader.find<T>(name).first;
    const auto elements = static_cast<std::size_t>(std::distance(container.begin(), container.end()));
    const auto before = usage_of(writer);
    EXPECT_EQ(reason_of([&] { change(container); }), errc::not_found) << name;
    EXPECT_EQ(static_cast<std::size_t>(std::distance(container.begin(), container.end())), elements) << name;
    EXPECT_EQ(usage_of(writer), before) << name << ": the writer's heap gave the memory";
}

void expect_no_container_grows(manager& writer, const manager& reader) {
    expect_untouched<vector<int>>(writer, reader, "numbers", [](auto& all) { all.resize(1000); });
    expect_untouched<map<int, int>>(writer, reader, "pairs", [](auto& all) { all.emplace(2, 2); });
    expect_untouched<unordered_map<int, int>>(writer, reader, "hashed", [](auto& all) { all.emplace(2, 2); });
    expect_untouched<unordered_map<int, int>>(writer, reader, "hashed", [](auto& all) { all.reserve(10'000); });
    expect_untouched<deque<int>>(writer, reader, "deque", [](auto& all) { all.resize(100'000); });
    expect_untouched<list<int>>(writer, reader, "list", [](auto& all) { all.push_back(1); });
    expect_untouched<forward_list<int>>(writer, reader, "forward_list", [](auto& all) { all.push_front(1); });
    expect_untouched<stable_vector<int>>(writer, reader, "stable_vector", [](auto& all) { all.resize(1000); });
    expect_untouched<flat_set<int>>(writer, reader, "flat_set", [](auto& all) {
        for (int i = 0; i < 1000; ++i) {
            all.insert(i);
        }
    });
    expect_untouched<string>(writer, reader, "text", [](auto& all) { all.append(1000, 'x'); });
}

/// Was: the container's new memory came from the heap that the process had open for writing, which has the same key.
TEST_F(manager_read_only_test, containers_do_not_allocate_from_the_writer_of_the_heap_they_were_copied_from) {
    manager::copy(path(), path("copy"));
    manager writer = open();
    const manager reader(open_read_only, path("copy"));
    expect_no_container_grows(writer, reader);
    writer.find<vector<int>>("numbers").first->resize(5000);
    EXPECT_EQ(writer.find<vector<int>>("numbers").first->size(), 5000U);
    expect_no_container_grows(writer, reader);
}

TEST_F(manager_read_only_test, a_writer_goes_on_when_a_reader_of_its_copy_has_closed) {
    manager::copy(path(), path("copy"));
    manager writer = open();
    {
        const manager reader(open_read_only, path("copy"));
        writer.find<vector<int>>("numbers").first->resize(5000);
    }
    writer.find<vector<int>>("numbers").first->resize(50'000);
    vector<int> elsewhere(10, 1, writer.get_allocator<int>());
    EXPECT_TRUE(writer.belongs_to_segment(elsewhere.data()));
}

}  // namespace
}  // namespace holdfast
