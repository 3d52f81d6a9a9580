// What a program with HOLDFAST_CHECKED_POINTERS cannot do, and that it can do all else.
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/global_ptr.hpp>
#include <holdfast/manager.hpp>

namespace holdfast {
namespace {

struct node {
    ptr<node> next;
    ptr<void> anything;
    std::uint64_t number = 0;
};

class checked_pointers_test : public ::testing::Test {
protected:
    checked_pointers_test() {
        for (int i = 0; i < 2; ++i) {
            manager::remove(path(i));
        }
        heap_.emplace(create_only, path(0));
        other_.emplace(create_only, path(1));
    }
    ~checked_pointers_test() override {
        heap_.reset();
        other_.reset();
        for (int i = 0; i < 2; ++i) {
            manager::remove(path(i));
        }
    }
    static std::string path(int number) {
        return ::testing::TempDir() + "checked_" + std::to_string(::getpid()) + "." + std::to_string(number);
    }
    static void expect_refused(const std::function<void()>& call) {
        try {
            call();
            ADD_FAILURE() << "not refused";
        } catch (const error& thrown) {
            EXPECT_EQ(thrown.reason(), errc::bad_address) << thrown.what();
        }
    }

    std::optional<manager> heap_;
    std::optional<manager> other_;
};

TEST_F(checked_pointers_test, that_lead_out_of_their_heap_are_refused) {
    auto* const kept = heap_->construct<node>("kept")();
    node* const made = heap_->construct<node>("one")();
    auto* const foreign = other_->construct<node>("foreign")();
    node local;
    made->next = kept;
    heap_->root(0) = kept;
    for (node* const target : {foreign, &local, new (heap_->allocate(sizeof(node))) node}) {
        const bool own = heap_->belongs_to_segment(target);
        const ptr<node> on_the_stack = target;
        const std::vector<std::function<void()>> ways{
            [&] { made->next = target; },
            [&] { made->next = on_the_stack; },
            [&] { made->anything = on_the_stack; },
            [&] { heap_->root(0) = target; },
            [&] { static_cast<void>(heap_->construct<ptr<node>>(anonymous_instance)(target)); },
            [&] { static_cast<void>(heap_->construct<ptr<node>>(anonymous_instance)(on_the_stack)); },
            [&] {
                heap_->construct<vector<ptr<node>>>(anonymous_instance)(heap_->get_allocator<int>())->push_back(target);
            },
        };
        for (const auto& way : ways) {
            if (own) {
                way();
            } else {
                expect_refused(way);
                EXPECT_EQ(made->next.get(), kept) << "as it was";
                EXPECT_EQ(heap_->root(0).get(), kept);
            }
        }
    }
}

TEST_F(checked_pointers_test, to_null_to_the_own_heap_and_on_the_stack_are_as_ever) {
    auto* const array = static_cast<node*>(heap_->allocate(4 * sizeof(node)));
    for (int i = 0; i < 4; ++i) {
        new (&array[i]) node;
    }
    array[0].next = array + 4;
    array[0].next -= 1;
    EXPECT_EQ(array[0].next.get(), array + 3);
    array[1].next = array[0].next;
    array[1].next = nullptr;
    EXPECT_FALSE(array[1].next);
    swap(array[0].next, array[1].next);
    EXPECT_EQ(array[1].next.get(), array + 3);
    node local;
    local.next = array;
    local.anything = &local;
    EXPECT_EQ(local.next.get(), array);
    array[2] = array[1];
    EXPECT_EQ(array[2].next.get(), array + 3);
    expect_refused([&] { array[2] = local; });
}

TEST_F(checked_pointers_test, of_containers_work) {
    const allocator<int> memory = heap_->get_allocator<int>();
    auto& strings = *heap_->construct<vector<string>>("strings")(memory);
    auto& ordered = *heap_->construct<map<int, string>>("ordered")(memory);
    auto& hashed = *heap_->construct<unordered_map<int, string>>("hashed")(memory);
    auto& queue = *heap_->construct<deque<int>>("queue")(memory);
    auto& chain = *heap_->construct<list<string>>("chain")(memory);
    for (int i = 0; i < 500; ++i) {
        const std::string text = std::string(static_cast<std::size_t>(i) % 60, 'x') + std::to_string(i);
        strings.emplace_back(text.c_str());
        ordered.emplace(i, string(text.c_str(), memory));
        hashed.emplace(i, string(text.c_str(), memory));
        queue.push_back(i);
        chain.emplace_back(text.c_str());
    }
    for (int i = 0; i < 500; i += 2) {
        ordered.erase(i);
        hashed.erase(i);
        queue.pop_front();
        chain.pop_front();
    }
    EXPECT_EQ(strings.size(), 500U);
    EXPECT_EQ(ordered.size(), 250U);
    EXPECT_EQ(hashed.size(), 250U);
    EXPECT_EQ(queue.front(), 250);
    EXPECT_EQ(chain.size(), 250U);
    auto copied = vector<string>(strings);
    swap(copied, strings);
    EXPECT_EQ(strings[499].size(), copied[499].size());
    EXPECT_TRUE(heap_->check(false).empty());
}

TEST_F(checked_pointers_test, to_another_heap_are_global_pointers) {
    auto* const foreign = other_->construct<node>("foreign")();
    foreign->number = 5;
    auto* const here = heap_->construct<global_ptr<node>>("there")(foreign);
    EXPECT_EQ((*here)->number, 5U);
}

}  // namespace
}  // namespace holdfast
