// Calls with a block that is not the caller's to give, in every durability: publish() and cancel() take what reserve()
// returned and nothing else. Such a call fails and changes nothing.
#include <cstring>

#include <gmock/gmock.h>
#include <holdfast/manager.hpp>

#include "api/manager_ways.hpp"
#include "base/units.hpp"

namespace holdfast {
namespace {

using base::mebibyte;
using testing::IsEmpty;

class manager_misuse_test : public manager_test, public testing::WithParamInterface<way> {
protected:
    manager create_heap() const { return {create_only, path(), options_of(GetParam())}; }
    manager open_heap() const { return {open_only, path(), options_of(GetParam())}; }

    static std::size_t count_blocks(const manager& heap) {
        std::size_t count = 0;
        heap.for_each_block([&count](const block_info&) { ++count; });
        return count;
    }
};

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

INSTANTIATE_TEST_SUITE_P(durabilities, manager_misuse_test, all_ways(), name_of_way);

}  // namespace
}  // namespace holdfast
