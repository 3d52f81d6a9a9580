// Type numbers of blocks through the C++ API, in both durabilities.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <holdfast/manager.hpp>

#include "api/manager_atomic_fixture.hpp"

namespace holdfast {
namespace {

using testing::IsEmpty;

class manager_types_test : public manager_atomic_test {};

INSTANTIATE_TEST_SUITE_P(domains, manager_types_test,
                         testing::Values(domain_choice::emulated, domain_choice::page_cache), [](const auto& each) {
                             return each.param == domain_choice::emulated ? "emulated" : "page_cache";
                         });

constexpr std::uint32_t last_type = (1U << 20U) - 1;

/// Types of all blocks, by their offsets.
std::map<std::uint64_t, std::uint32_t> types_in(const manager& heap) {
    std::map<std::uint64_t, std::uint32_t> types;
    heap.for_each_block([&](const block_info& each) {
        EXPECT_EQ(heap.type_of(each.address), each.type);
        types.emplace(heap.get_handle_from_address(each.address), each.type);
    });
    return types;
}

TEST_P(manager_types_test, keeps_the_types_of_blocks_through_a_kill_and_a_close) {
    create_atomic().close();
    constexpr std::size_t count = 400;
    const auto type_at = [](std::size_t i) { return i % 5 == 4 ? last_type : static_cast<std::uint32_t>(i % 5); };
    const auto final_type_at = [&](std::size_t i) {
        return i % 2 == 0 && type_at(i + 1) != 0 ? type_at(i + 1) : type_at(i);
    };
    const auto bytes_at = [](std::size_t i) { return i % 7 == 6 ? std::size_t{50'000} : std::size_t{16} << (i % 7); };
    run_and_kill([&](manager& heap) {
        for (int round = 0; round < 3; ++round) {
            for (std::size_t i = 0; i < count; ++i) {
                heap.free_from(heap.root(i));
                heap.allocate_to(heap.root(i), bytes_at(i), {.type = type_at(i)});
                if (i % 2 == 0) {
                    heap.realloc_to(heap.root(i), bytes_at(i + 1), {.zeroed = true, .type = type_at(i + 1)});
                }
            }
        }
        static_cast<void>(heap.reserve(64, {.type = 77}));
        static_cast<void>(heap.reserve(64 * 1024, {.type = 77}));
    });
    for (const char* const as : {"read-only", "atomic", "commit", "atomic"}) {
        const manager heap = as == std::string("read-only") ? manager(open_read_only, path())
                             : as == std::string("atomic")  ? open_atomic()
                                                            : open();
        std::map<std::uint64_t, std::uint32_t> expected;
        for (std::size_t i = 0; i < count; ++i) {
            ASSERT_TRUE(heap.root(i));
            EXPECT_EQ(heap.type_of(heap.root(i).get()), final_type_at(i)) << as << " " << i;
            expected.emplace(heap.get_handle_from_address(heap.root(i).get()), final_type_at(i));
        }
        EXPECT_EQ(types_in(heap), expected) << as;
        EXPECT_THAT(heap.check(false), IsEmpty()) << as;
    }
    manager heap = open_atomic();
    for (std::size_t i = 0; i < count; ++i) {
        EXPECT_TRUE(heap.free_from(heap.root(i)));
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(manager_types_test, gives_types_to_blocks_in_every_way) {
    manager heap = create_atomic();
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{100'000}}) {
        heap.allocate_to(heap.root(0), bytes, {.type = 9});
        heap.realloc_to(heap.root(0), 2 * bytes);
        EXPECT_EQ(heap.type_of(heap.root(0).get()), 9U) << "kept";
        heap.realloc_to(heap.root(0), bytes, {.type = 10});
        EXPECT_EQ(heap.type_of(heap.root(0).get()), 10U);
        void* const reserved = heap.reserve(bytes, {.type = 11});
        EXPECT_EQ(count_blocks(heap), 1U);
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.type_of(reserved)); }), errc::bad_address);
        heap.publish(heap.root(1), reserved);
        EXPECT_EQ(heap.type_of(reserved), 11U);
        heap.cancel(heap.reserve(bytes, {.type = 11}));
        std::vector<ptr<void>*> many;
        for (std::size_t i = 0; i < 50; ++i) {
            many.push_back(&heap.root(10 + i));
        }
        heap.allocate_batch<void>(many, bytes, {.type = last_type});
        for (const ptr<void>* const each : many) {
            EXPECT_EQ(heap.type_of(each->get()), last_type);
        }
        heap.make_persistent<node>(reinterpret_cast<ptr<node>&>(heap.root(2)), 1U);
        EXPECT_EQ(heap.type_of(heap.root(2).get()), 0U);
        EXPECT_EQ(heap.type_of(heap.allocate(bytes)), 0U);
        EXPECT_THAT(heap.check(false), IsEmpty());
        heap.free_batch<void>(many);
        heap.for_each_block([&](const block_info& each) { heap.deallocate(each.address); });
        for (std::size_t i = 0; i < 3; ++i) {
            heap.root(i) = nullptr;
        }
        EXPECT_THAT(heap.check(false), IsEmpty());
    }
}

TEST_P(manager_types_test, refuses_types_that_have_no_room) {
    manager heap = create_atomic();
    const allocation_traits wrong{.type = last_type + 1};
    heap.allocate_to(heap.root(0), 64, {.type = 3});
    void* const kept = heap.root(0).get();
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{100'000}}) {
        EXPECT_EQ(reason_of([&] { heap.allocate_to(heap.root(1), bytes, wrong); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { heap.realloc_to(heap.root(0), bytes, wrong); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.reserve(bytes, wrong)); }), errc::invalid_argument);
        ptr<void>* const one[] = {&heap.root(1)};
        EXPECT_EQ(reason_of([&] { heap.allocate_batch<void>(one, bytes, wrong); }), errc::invalid_argument);
    }
    EXPECT_FALSE(heap.root(1));
    EXPECT_EQ(heap.root(0), kept);
    EXPECT_EQ(count_blocks(heap), 1U);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.type_of(&heap)); }), errc::bad_address);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_F(manager_test, keeps_types_in_durability_commit) {
    {
        manager heap = create();
        for (std::size_t i = 0; i < 40; ++i) {
            const std::size_t bytes = i % 4 == 0 ? 30'000 : 100;
            heap.allocate_to(heap.root(i), bytes, {.zeroed = i % 2 == 0, .type = static_cast<std::uint32_t>(i)});
        }
        heap.realloc_to(heap.root(5), 5000);
        heap.realloc_to(heap.root(6), 5000, {.type = last_type});
        heap.publish(heap.root(40), heap.reserve(64, {.type = 40}));
        EXPECT_EQ(reason_of([&] { heap.allocate_to(heap.root(41), 64, {.type = last_type + 1}); }),
                  errc::invalid_argument);
        EXPECT_THAT(heap.check(false), IsEmpty());
        heap.commit();
        for (std::size_t i = 0; i < 40; ++i) {
            heap.free_from(heap.root(i));
        }
        heap.close(false);
    }
    manager heap = open();
    for (std::size_t i = 0; i <= 40; ++i) {
        EXPECT_EQ(heap.type_of(heap.root(i).get()), i == 6 ? last_type : i) << i;
    }
    EXPECT_EQ(types_in(heap).size(), 41U);
    EXPECT_THAT(heap.check(true), IsEmpty());
    for (std::size_t i = 0; i <= 40; ++i) {
        heap.free_from(heap.root(i));
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

}  // namespace
}  // namespace holdfast
