// Memory that is pinned for devices: commits leave it in place, and find what a device has stored.
#include <cstring>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/holdfast.h>
#include <holdfast/transaction.hpp>

#include "api/manager_test_configurations.hpp"
#include "base/process_test_support.hpp"
#include "persist/pinned_device_test_support.hpp"

namespace holdfast {
namespace {

constexpr std::size_t buffer_size = std::size_t{1} << 20;

class manager_pins_test : public manager_test {
protected:
    /// What a crash right now would leave.
    [[nodiscard]] char stored_in_a_copy(std::size_t at) const {
        const std::string copy = path("copy");
        std::filesystem::remove_all(copy);
        std::filesystem::copy(path(), copy, std::filesystem::copy_options::recursive);
        const manager left(open_read_only, copy);
        EXPECT_TRUE(left.check(true).empty());
        return static_cast<const char*>(left.root(0).get())[at];
    }
    [[nodiscard]] static char* make(manager& heap, std::size_t bytes = buffer_size) {
        auto* const made = static_cast<char*>(heap.allocate(bytes));
        std::memset(made, 0, bytes);
        heap.root(0) = made;
        return made;
    }
};

/// Was: '1' in the program and in the heap, where the device had stored '2' and '3'.
TEST_F(manager_pins_test, commits_find_what_a_device_stores) {
    for (const bool committed_first : {true, false}) {
        manager::remove(path());
        manager heap = create();
        char* const buffer = make(heap);
        if (committed_first) {
            heap.commit();
        }
        heap.pin(buffer, buffer_size);
        persist::pinned_device device(path("source"), buffer, buffer_size);
        for (const char value : {'1', '2', '3'}) {
            device.store(value);
            EXPECT_EQ(buffer[77'777], value);
            heap.commit();
            EXPECT_EQ(buffer[77'777], value);
            EXPECT_EQ(stored_in_a_copy(77'777), value) << committed_first;
        }
        heap.commit();
        EXPECT_EQ(heap.last_commit().dirty_pages, 0U) << "nothing was stored: only what differs is written";
        heap.unpin(buffer, buffer_size);
        heap.commit();
        heap.commit();
        EXPECT_EQ(buffer[77'777], '3') << "pages that were let go have their content";
        buffer[77'777] = '4';
        heap.commit();
        EXPECT_EQ(stored_in_a_copy(77'777), '4');
        EXPECT_TRUE(heap.check(true).empty());
        heap.close();
    }
}

/// In a small block, beside others on its pages.
TEST_F(manager_pins_test, neighbours_on_pinned_pages_are_committed_too) {
    manager heap = create();
    auto* const one = static_cast<char*>(heap.allocate(1000));
    auto* const other = static_cast<char*>(heap.allocate(1000));
    heap.root(0) = other;
    heap.commit();
    heap.pin(one + 100, 500);
    for (const char value : {'a', 'b'}) {
        std::memset(other, value, 1000);
        heap.commit();
        EXPECT_EQ(stored_in_a_copy(999), value);
    }
}

TEST_F(manager_pins_test, other_commits_do_not_let_pages_go) {
    manager heap = create();
    char* const buffer = make(heap);
    heap.pin(buffer, buffer_size);
    persist::pinned_device device(path("source"), buffer, buffer_size);
    device.store('1');
    heap.snapshot(path("snapshot"));
    device.store('2');
    heap.shrink();
    EXPECT_EQ(buffer[1], '2');
    EXPECT_EQ(stored_in_a_copy(1), '2');
    device.store('3');
    heap.close();
    const manager again(open_read_only, path());
    EXPECT_EQ(static_cast<const char*>(again.root(0).get())[1], '3');
    const manager snapshot(open_read_only, path("snapshot"));
    EXPECT_EQ(static_cast<const char*>(snapshot.root(0).get())[1], '1');
}

TEST_F(manager_pins_test, ranges_may_overlap) {
    manager heap = create();
    char* const buffer = make(heap);
    heap.commit();
    heap.pin(buffer, buffer_size);
    heap.pin(buffer + 5000, 10'000);
    heap.pin(buffer + 5000, 10'000);
    persist::pinned_device device(path("source"), buffer + 8192, 4096);
    heap.unpin(buffer, buffer_size);
    heap.unpin(buffer + 5000, 10'000);
    device.store('1');
    heap.commit();
    device.store('2');
    EXPECT_EQ(buffer[8192], '2');
    EXPECT_EQ(reason_of([&] { heap.deallocate(buffer); }), errc::bad_address);
    heap.unpin(buffer + 5000, 10'000);
    heap.root(0) = nullptr;
    heap.deallocate(buffer);
    heap.commit();
    EXPECT_TRUE(heap.check(true).empty());
}

class manager_pins_durabilities_test : public manager_pins_test,
                                       public testing::WithParamInterface<test_configuration> {};

TEST_P(manager_pins_durabilities_test, what_cannot_be_pinned_is_refused) {
    manager heap(create_only, path(), options_of(GetParam()));
    auto* const small = static_cast<char*>(heap.allocate(100));
    auto* const large = static_cast<char*>(heap.allocate(20'000));
    heap.root(0) = small;
    heap.root(1) = large;
    int local = 0;
    EXPECT_EQ(reason_of([&] { heap.pin(&local, sizeof local); }), errc::bad_address);
    EXPECT_EQ(reason_of([&] { heap.pin(nullptr, 1); }), errc::bad_address);
    EXPECT_EQ(reason_of([&] { heap.pin(small, 0); }), errc::bad_address);
    EXPECT_EQ(reason_of([&] { heap.pin(small, heap.usable_size(small) + 1); }), errc::bad_address);
    EXPECT_EQ(reason_of([&] { heap.pin(large, heap.usable_size(large) + 1); }), errc::bad_address);
    EXPECT_EQ(reason_of([&] { heap.pin(large, ~std::size_t{0}); }), errc::bad_address);
    EXPECT_EQ(reason_of([&] { heap.unpin(small, 10); }), errc::bad_address) << "it is not pinned";
    heap.pin(small, 10);
    EXPECT_EQ(reason_of([&] { heap.unpin(small, 11); }), errc::bad_address) << "another range is pinned";
    heap.unpin(small, 10);
    heap.deallocate(large);
    EXPECT_EQ(reason_of([&] { heap.pin(large, 10); }), errc::bad_address) << "it was freed";
    heap.close();
    manager reader(open_read_only, path(), options_of(GetParam()));
    const auto* const there = static_cast<const char*>(std::as_const(reader).root(0).get());
    EXPECT_EQ(reason_of([&] { reader.pin(there, 10); }), errc::read_only);
}

TEST_P(manager_pins_durabilities_test, blocks_stay_until_they_are_unpinned) {
    manager heap(create_only, path(), options_of(GetParam()));
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{40'000}}) {
        void* const block = heap.allocate_to(heap.root(0), bytes);
        heap.pin(block, bytes);
        EXPECT_EQ(reason_of([&] { heap.deallocate(block); }), errc::bad_address);
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.free_from(heap.root(0))); }), errc::bad_address);
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.realloc_to(heap.root(0), 10 * bytes)); }), errc::bad_address);
        EXPECT_EQ(reason_of([&] { heap.transact([&](transaction& tx) { tx.free(block); }); }), errc::bad_address);
        EXPECT_EQ(heap.root(0).get(), block);
        heap.unpin(block, bytes);
        EXPECT_TRUE(heap.free_from(heap.root(0)));
    }
    auto* const object = heap.construct<std::uint64_t>("object")(7U);
    heap.pin(object, sizeof *object);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.destroy<std::uint64_t>("object")); }), errc::locked);
    heap.unpin(object, sizeof *object);
    EXPECT_EQ(reason_of([&] { heap.deallocate(object); }), errc::bad_address) << "it is an object still";
    EXPECT_TRUE(heap.destroy<std::uint64_t>("object"));
    void* const lost = heap.allocate(100);
    heap.pin(lost, 100);
    EXPECT_EQ(heap.collect().blocks_freed, 0U) << "a device uses it";
    heap.unpin(lost, 100);
    EXPECT_EQ(heap.collect().blocks_freed, 1U);
    EXPECT_TRUE(heap.check(false).empty());
}

/// A close ends them.
TEST_P(manager_pins_durabilities_test, pins_are_of_one_opening) {
    {
        manager heap(create_only, path(), options_of(GetParam()));
        heap.pin(make(heap), buffer_size);
        heap.close();
    }
    manager again(open_only, path(), options_of(GetParam()));
    void* const block = again.root(0).get();
    EXPECT_EQ(reason_of([&] { again.unpin(block, buffer_size); }), errc::bad_address);
    again.root(0) = nullptr;
    EXPECT_NO_THROW(again.deallocate(block));
    EXPECT_TRUE(base::succeeds_in_child(
        [&] { return reason_of([&] { again.pin(again.get_address(), 1); }) == errc::wrong_process; }));
}

INSTANTIATE_TEST_SUITE_P(all, manager_pins_durabilities_test, all_test_configurations(), name_of_configuration);

}  // namespace
}  // namespace holdfast
