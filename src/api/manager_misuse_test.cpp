// Calls with a block that is not the caller's to give, in every durability: a constructed object is freed by destroy()
// alone, and publish() and cancel() take what reserve() returned and nothing else. Such a call fails and changes
// nothing.
#include <array>
#include <cstring>
#include <string>

#include <gmock/gmock.h>
#include <holdfast/manager.hpp>

#include "api/manager_test_configurations.hpp"
#include "base/units.hpp"

namespace holdfast {
namespace {

using base::mebibyte;
using testing::HasSubstr;
using testing::IsEmpty;

struct small_object {
    std::uint64_t value = 7;
};
struct large_object {
    std::array<std::uint64_t, 12'500> values{};  // whole pages
};

class manager_misuse_test : public manager_test, public testing::WithParamInterface<test_configuration> {
protected:
    manager create_heap() const { return {create_only, path(), options_of(GetParam())}; }
    manager open_heap() const { return {open_only, path(), options_of(GetParam())}; }

    static std::size_t count_blocks(const manager& heap) {
        std::size_t count = 0;
        heap.for_each_block([&count](const block_info&) { ++count; });
        return count;
    }
};

template <class T>
void expect_kept(manager& heap, const T* object) {
    const auto before = usage_of(heap);
    try {
        heap.deallocate(const_cast<T*>(object));
        ADD_FAILURE() << "an object was freed as a block";
    } catch (const error& refused) {
        EXPECT_EQ(refused.reason(), errc::bad_address);
        EXPECT_THAT(refused.what(), HasSubstr("object"));
        EXPECT_THAT(refused.what(), HasSubstr("destroy"));
        EXPECT_THAT(refused.what(), HasSubstr(heap.path()));
    }
    EXPECT_EQ(usage_of(heap), before);
}

/// Was: the block was freed, and the directory still named it; in durability `atomic` the name could be neither found
/// nor destroyed nor constructed again.
TEST_P(manager_misuse_test, deallocate_refuses_constructed_objects) {
    {
        manager heap = create_heap();
        expect_kept(heap, heap.construct<small_object>("small")());
        expect_kept(heap, heap.construct<large_object>("large")());
        expect_kept(heap, heap.construct<small_object>(unique_instance)());
        expect_kept(heap, heap.construct<small_object>(anonymous_instance)());
        heap.root(0) = heap.construct<large_object>(anonymous_instance)();
        EXPECT_THAT(heap.check(false), IsEmpty());
    }
    manager heap = open_heap();
    // Nobody has looked at the directory yet.
    expect_kept(heap, static_cast<large_object*>(heap.root(0).get()));
    expect_kept(heap, heap.find<small_object>("small").first);
    expect_kept(heap, heap.find<large_object>("large").first);
    expect_kept(heap, heap.find<small_object>(unique_instance).first);
    EXPECT_EQ(heap.find<small_object>("small").first->value, 7U);
    EXPECT_TRUE(heap.destroy<small_object>("small"));
    EXPECT_TRUE(heap.destroy<large_object>("large"));
    EXPECT_TRUE(heap.destroy<small_object>(unique_instance));
    heap.destroy_ptr(static_cast<large_object*>(heap.root(0).get()));
    heap.destroy_ptr(static_cast<const small_object*>(heap.anonymous_begin()->value()));
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_NE(heap.construct<small_object>("small")(), nullptr);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

/// Frees of a hardened heap take another path.
TEST_P(manager_misuse_test, deallocate_refuses_constructed_objects_of_a_hardened_heap) {
    open_options options = options_of(GetParam());
    options.hardened = true;
    {
        manager heap(create_only, path(), options);
        expect_kept(heap, heap.construct<small_object>("small")());
        expect_kept(heap, heap.construct<large_object>("large")());
    }
    manager heap(open_only, path(), options);
    expect_kept(heap, heap.find<small_object>("small").first);
    expect_kept(heap, heap.find<large_object>("large").first);
    EXPECT_TRUE(heap.destroy<small_object>("small"));
    EXPECT_TRUE(heap.destroy<large_object>("large"));
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

/// What an allocator cannot throw goes to the error handler.
TEST_P(manager_misuse_test, an_allocator_that_is_given_an_object_says_so_and_changes_nothing) {
    manager heap = create_heap();
    auto* const object = heap.construct<small_object>("small")();
    std::string told;
    const auto previous = set_error_handler([&told](const error& what) { told = what.what(); });
    heap.get_allocator<small_object>().deallocate(ptr<small_object>(object), 1);
    set_error_handler(previous);
    EXPECT_THAT(told, HasSubstr("object"));
    EXPECT_EQ(heap.find<small_object>("small").first, object);
    EXPECT_EQ(count_blocks(heap), 1U);
}

TEST_P(manager_misuse_test, deallocate_takes_blocks_where_objects_were) {
    manager heap = create_heap();
    heap.construct<small_object>("small")();
    heap.construct<large_object>("large")();
    EXPECT_TRUE(heap.destroy<small_object>("small"));
    EXPECT_TRUE(heap.destroy<large_object>("large"));
    for (int i = 0; i < 3000; ++i) {
        void* const block = heap.allocate(sizeof(small_object));
        EXPECT_NO_THROW(heap.deallocate(block));
    }
    for (int i = 0; i < 20; ++i) {
        void* const block = heap.allocate(sizeof(large_object));
        EXPECT_NO_THROW(heap.deallocate(block));
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
}

TEST_P(manager_misuse_test, no_call_with_a_destination_frees_an_object) {
    manager heap = create_heap();
    heap.root(0) = heap.construct<small_object>("small")();
    heap.root(1) = heap.construct<large_object>("large")();
    const auto before = usage_of(heap);
    for (const std::size_t i : {0U, 1U}) {
        void* const object = heap.root(i).get();
        EXPECT_EQ(reason_of([&] { heap.free_from(heap.root(i)); }), errc::bad_address);
        EXPECT_EQ(reason_of([&] { heap.realloc_to(heap.root(i), 300'000); }), errc::bad_address);
        EXPECT_EQ(heap.root(i).get(), object) << "nothing is changed";
    }
    EXPECT_EQ(usage_of(heap), before);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(manager_misuse_test, an_object_whose_constructor_throws_leaves_no_mark_behind) {
    struct thrower {
        thrower() { throw std::runtime_error("no"); }
        std::uint64_t value[4];
    };
    manager heap = create_heap();
    EXPECT_THROW(heap.construct<thrower>("never")(), std::runtime_error);
    for (int i = 0; i < 3000; ++i) {
        void* const block = heap.allocate(sizeof(thrower));
        EXPECT_NO_THROW(heap.deallocate(block));
    }
}

/// Was, but in durability `atomic`: any allocated block was taken, and two destinations owned it.
TEST_P(manager_misuse_test, publish_takes_what_was_reserved_and_nothing_else) {
    manager heap = create_heap();
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{100'000}, 3 * mebibyte}) {
        heap.allocate_to(heap.root(0), bytes);
        void* const taken = heap.root(0).get();
        EXPECT_EQ(reason_of([&] { heap.publish(heap.root(1), taken); }), errc::bad_address);
        EXPECT_EQ(heap.root(1).get(), nullptr);
        void* const reserved = heap.reserve(bytes);
        heap.publish(heap.root(1), reserved);
        EXPECT_EQ(reason_of([&] { heap.publish(heap.root(2), reserved); }), errc::bad_address) << "a second time";
        EXPECT_EQ(heap.root(2).get(), nullptr);
        EXPECT_GE(heap.usable_size(reserved), bytes);
        heap.free_from(heap.root(0));
        heap.free_from(heap.root(1));
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

/// Was, but in durability `atomic`: the block was freed, and its destination led to free memory.
TEST_P(manager_misuse_test, cancel_takes_what_was_reserved_and_nothing_else) {
    manager heap = create_heap();
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{100'000}, 3 * mebibyte}) {
        void* const reserved = heap.reserve(bytes);
        heap.publish(heap.root(0), reserved);
        EXPECT_EQ(reason_of([&] { heap.cancel(reserved); }), errc::bad_address) << "published";
        EXPECT_GE(heap.usable_size(reserved), bytes);
        heap.free_from(heap.root(0));
        void* const second = heap.reserve(bytes);
        heap.cancel(second);
        EXPECT_EQ(reason_of([&] { heap.cancel(second); }), errc::bad_address) << "cancelled";
    }
    EXPECT_EQ(reason_of([&] { heap.cancel(nullptr); }), errc::bad_address);
    EXPECT_TRUE(heap.all_memory_deallocated());
}

TEST_P(manager_misuse_test, a_reserved_block_is_not_freed_as_an_allocated_one) {
    manager heap = create_heap();
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{100'000}, 3 * mebibyte}) {
        void* const reserved = heap.reserve(bytes, {.type = 5});
        std::memset(reserved, 1, bytes);
        EXPECT_EQ(count_blocks(heap), 0U) << "allocated once it is published";
        EXPECT_EQ(reason_of([&] { heap.deallocate(reserved); }), errc::bad_address);
        heap.publish(heap.root(0), reserved);
        EXPECT_EQ(heap.type_of(reserved), 5U);
        heap.free_from(heap.root(0));
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

/// Was, but in durability `atomic`: what was reserved stayed allocated for ever, and nothing led to it.
TEST_P(manager_misuse_test, what_was_never_published_is_free_after_a_close) {
    {
        manager heap = create_heap();
        static_cast<void>(heap.reserve(64));
        static_cast<void>(heap.reserve(64, {.type = 3}));
        static_cast<void>(heap.reserve(100'000));
        static_cast<void>(heap.reserve(3 * mebibyte));
        EXPECT_THAT(heap.check(false), IsEmpty());
    }
    manager heap = open_heap();
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(manager_misuse_test, what_was_reserved_at_a_commit_is_free_in_the_copy_and_is_published_later) {
    manager heap = create_heap();
    void* const small = heap.reserve(64);
    void* const large = heap.reserve(100'000);
    heap.commit();
    heap.snapshot(path("copy"));
    {
        manager copy(open_read_only, path("copy"));
        EXPECT_TRUE(copy.all_memory_deallocated());
        EXPECT_THAT(copy.check(false), IsEmpty());
    }
    heap.publish(heap.root(0), small);
    heap.publish(heap.root(1), large);
    heap.close(true);
    heap = open_heap();
    EXPECT_EQ(count_blocks(heap), 2U);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(durabilities, manager_misuse_test, all_test_configurations(), name_of_configuration);

}  // namespace
}  // namespace holdfast
