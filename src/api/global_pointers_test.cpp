// Pointers from one heap to another: both mapped elsewhere, closed, opened read-only, copied, shorter than they were.
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/global_ptr.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "api/manager_test_configurations.hpp"

namespace holdfast {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct customer {
    std::uint64_t number = 0;
};
struct order {
    global_ptr<customer> by;
    std::uint64_t total = 0;
};

class global_pointers_test : public manager_test, public testing::WithParamInterface<test_configuration> {
protected:
    [[nodiscard]] manager create_heap(const std::string& name) const {
        return {create_only, path(name), options_of(GetParam())};
    }
    [[nodiscard]] manager open_heap(const std::string& name) const {
        return {open_only, path(name), options_of(GetParam())};
    }
    /// Heaps `orders` and `customers`, closed: order 1 is by customer 7.
    void make_heaps() const {
        manager customers = create_heap("customers");
        manager orders = create_heap("orders");
        auto* const made = customers.construct<customer>("seven")(customer{7});
        orders.construct<order>("one")(order{global_ptr<customer>(made), 100});
    }
};

INSTANTIATE_TEST_SUITE_P(in, global_pointers_test, all_test_configurations(), name_of_configuration);

TEST_P(global_pointers_test, lead_to_another_heap_wherever_the_two_are_mapped) {
    make_heaps();
    // Other heaps take the addresses that these two had.
    const manager first = create_heap("first");
    const manager second = create_heap("second");
    const manager customers = open_heap("customers");
    const manager orders = open_heap("orders");
    const order& one = *orders.find<order>("one").first;
    EXPECT_EQ(one.by.get(), customers.find<customer>("seven").first);
    EXPECT_EQ(one.by->number, 7U);
    EXPECT_EQ((*one.by).number, 7U);
    EXPECT_EQ(one.by.find(), one.by.get());
}

TEST_P(global_pointers_test, to_a_heap_that_is_closed_name_its_uuid) {
    make_heaps();
    const std::string uuid = manager::get_uuid(path("customers"));
    const manager orders = open_heap("orders");
    const order& one = *orders.find<order>("one").first;
    EXPECT_TRUE(one.by);
    EXPECT_EQ(one.by.find(), nullptr);
    for (int round = 0; round < 2; ++round) {
        try {
            static_cast<void>(one.by.get());
            ADD_FAILURE() << "the heap is closed";
        } catch (const error& thrown) {
            EXPECT_EQ(thrown.reason(), errc::not_found);
            EXPECT_THAT(thrown.found(), HasSubstr(uuid.substr(0, 18)));
            EXPECT_THAT(thrown.what(), HasSubstr("global_ptr"));
        }
        const manager customers = open_heap("customers");
        EXPECT_EQ(one.by->number, 7U);
    }
}

TEST_P(global_pointers_test, lead_into_heaps_that_are_open_read_only) {
    make_heaps();
    const manager customers(open_read_only, path("customers"), options_of(GetParam()));
    const manager orders(open_read_only, path("orders"), options_of(GetParam()));
    const order& one = *orders.find<order>("one").first;
    EXPECT_EQ(one.by.get(), customers.find<customer>("seven").first);
    EXPECT_EQ(global_ptr<const customer>(customers.find<customer>("seven").first), one.by);
}

TEST_P(global_pointers_test, lead_to_the_heap_and_not_to_its_copy) {
    make_heaps();
    manager::copy(path("customers"), path("copy"));
    const manager orders = open_heap("orders");
    const order& one = *orders.find<order>("one").first;
    {
        const manager copy = open_heap("copy");
        EXPECT_EQ(reason_of([&] { static_cast<void>(one.by.get()); }), errc::not_found);
        EXPECT_NE(global_ptr<customer>(copy.find<customer>("seven").first), one.by);
    }
    const manager customers = open_heap("customers");
    const manager copy(open_read_only, path("copy"), options_of(GetParam()));
    EXPECT_EQ(one.by.get(), customers.find<customer>("seven").first);
}

TEST_P(global_pointers_test, follow_a_heap_that_grows) {
    manager customers = create_heap("customers");
    manager orders = create_heap("orders");
    auto& all = *orders.construct<vector<global_ptr<std::byte>>>("all")(orders.get_allocator<int>());
    for (int i = 0; i < 40; ++i) {
        auto* const block = static_cast<std::byte*>(customers.allocate(std::size_t{300} << 10U));
        *block = static_cast<std::byte>(i);
        all.emplace_back(block);
        EXPECT_EQ(all.back().get(), block);
    }
    int expected = 0;
    for (const global_ptr<std::byte>& each : all) {
        EXPECT_EQ(*each, static_cast<std::byte>(expected++));
    }
    EXPECT_THAT(orders.check(false), IsEmpty());
}

TEST_P(global_pointers_test, are_stored_in_transactions) {
    make_heaps();
    manager customers = open_heap("customers");
    manager orders = open_heap("orders");
    auto* const eight = customers.construct<customer>("eight")(customer{8});
    order& one = *orders.find<order>("one").first;
    {
        transaction tx(orders);
        tx.open(one).by = eight;
        EXPECT_EQ(tx.open(one).by->number, 8U);
        tx.abort();
    }
    EXPECT_EQ(one.by->number, 7U);
    transaction tx(orders);
    tx.open(one).by = eight;
    tx.commit();
    EXPECT_EQ(one.by->number, 8U);
}

TEST_P(global_pointers_test, are_found_by_many_threads_while_other_heaps_come_and_go) {
    make_heaps();
    const manager customers = open_heap("customers");
    const manager orders = open_heap("orders");
    const order& one = *orders.find<order>("one").first;
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
            if (thread == 0) {
                for (int round = 0; round < 10; ++round) {
                    create_heap("other" + std::to_string(round)).close();
                }
            }
            for (int round = 0; round < 20'000; ++round) {
                if (one.by->number != 7 || global_ptr<const customer>(one.by.get()) != one.by) {
                    ADD_FAILURE();
                    return;
                }
            }
        });
    }
}

class global_pointers : public manager_test {};

TEST_F(global_pointers, to_no_heap_are_refused) {
    manager heap = create();
    customer local;
    auto* const made = heap.construct<customer>("one")(customer{1});
    global_ptr<customer> pointer(made);
    EXPECT_EQ(reason_of([&] { pointer = &local; }), errc::bad_address);
    EXPECT_EQ(pointer.get(), made) << "as it was";
    EXPECT_EQ(reason_of([&] { static_cast<void>(global_ptr<customer>(&local)); }), errc::bad_address);
    heap.close();
    EXPECT_EQ(reason_of([&] { static_cast<void>(global_ptr<customer>(made)); }), errc::bad_address);
}

TEST_F(global_pointers, lead_to_the_writer_where_a_reader_has_the_heap_open_too) {
    manager writer = create();
    auto* const made = writer.construct<customer>("one")(customer{1});
    writer.commit();
    const manager reader(open_read_only, path());
    auto* const seen = reader.find<customer>("one").first;
    ASSERT_NE(seen, made);
    const global_ptr<customer> pointer(seen);
    EXPECT_EQ(pointer.get(), made);
    EXPECT_EQ(global_ptr<customer>(seen), global_ptr<customer>(made));
    EXPECT_EQ(pointer.get(), made);
    writer.close();
    EXPECT_EQ(pointer.get(), seen);
}

TEST_F(global_pointers, beyond_the_end_of_a_heap_are_refused) {
    manager heap = create();
    std::uint64_t words[2];
    const global_ptr<void> root(&heap.root(0));
    std::memcpy(words, &root, sizeof words);
    for (const std::uint64_t offset : {std::uint64_t{1} << 29U, std::uint64_t{1} << 50U, ~std::uint64_t{0}}) {
        words[1] = offset;
        global_ptr<void> beyond;
        std::memcpy(static_cast<void*>(&beyond), words, sizeof words);
        EXPECT_EQ(reason_of([&] { static_cast<void>(beyond.get()); }), errc::bad_address) << offset;
        EXPECT_EQ(beyond.find(), nullptr);
    }
}

TEST_F(global_pointers, that_are_zero_are_null) {
    alignas(8) unsigned char zeros[16] = {};
    const auto* const pointer = std::launder(reinterpret_cast<const global_ptr<int>*>(zeros));
    EXPECT_FALSE(*pointer);
    EXPECT_EQ(pointer->get(), nullptr);
    EXPECT_EQ(pointer->find(), nullptr);
    EXPECT_EQ(*pointer, nullptr);
    manager heap = create();
    global_ptr<void> other(&heap.root(0));
    EXPECT_NE(other, nullptr);
    other = nullptr;
    EXPECT_EQ(other, global_ptr<void>());
}

TEST_F(global_pointers, are_copied_by_memcpy_converted_and_hashed) {
    manager heap = create();
    auto* const made = heap.construct<customer>("one")(customer{1});
    const global_ptr<customer> pointer(made);
    const global_ptr<const customer> to_const = pointer;
    const global_ptr<const void> to_void = to_const;
    EXPECT_EQ(to_void.get(), made);
    global_ptr<customer> copied;
    std::memcpy(static_cast<void*>(&copied), &pointer, sizeof copied);
    EXPECT_EQ(copied, pointer);
    std::unordered_set<global_ptr<customer>> all{pointer};
    EXPECT_TRUE(all.contains(copied));
    static_assert(is_persistable_v<global_ptr<customer>>);
    static_assert(!std::is_convertible_v<customer*, global_ptr<customer>>, "it may throw");
}

}  // namespace
}  // namespace holdfast
