// allocation_traits::zeroed, in every durability: what a program finds behind the bytes that it had asked for.
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "api/manager_test_support.hpp"

namespace holdfast {
namespace {

using testing::Each;
using testing::IsEmpty;

class manager_zeroed_test : public manager_test, public testing::WithParamInterface<durability> {
protected:
    [[nodiscard]] manager create_heap() const {
        open_options wanted = small_options();
        wanted.durability = GetParam();
        wanted.accept_process_crash_only = true;
        return {create_only, path(), wanted};
    }
    /// Leaves free memory that is full of ones.
    static void soil(manager& heap, std::size_t bytes) {
        for (std::size_t slot = 10; slot < 20; ++slot) {
            void* const block = heap.allocate_to(heap.root(slot), bytes);
            std::memset(block, 1, heap.usable_size(block));
        }
        for (std::size_t slot = 10; slot < 20; ++slot) {
            heap.free_from(heap.root(slot));
        }
    }
};

INSTANTIATE_TEST_SUITE_P(in, manager_zeroed_test,
                         testing::Values(durability::commit, durability::collect, durability::atomic),
                         [](const auto& each) {
                             return each.param == durability::commit    ? "commit"
                                    : each.param == durability::collect ? "collect"
                                                                        : "atomic";
                         });

TEST_P(manager_zeroed_test, a_zeroed_block_that_grows_zeroed_has_no_bytes_of_an_earlier_one) {
    manager heap = create_heap();
    constexpr allocation_traits zeroed{.zeroed = true};
    const std::vector<std::function<void(ptr<void>&, std::size_t)>> ways{
        [&](ptr<void>& root, std::size_t bytes) { heap.allocate_to(root, bytes, zeroed); },
        [&](ptr<void>& root, std::size_t bytes) { root = heap.allocate(bytes, zeroed); },
        [&](ptr<void>& root, std::size_t bytes) { heap.publish(root, heap.reserve(bytes, zeroed)); },
        [&](ptr<void>& root, std::size_t bytes) {
            transaction tx(heap);
            tx.store(root, tx.allocate(bytes, zeroed));
            tx.commit();
        },
    };
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{20'001}, std::size_t{200'001}}) {
        for (std::size_t way = 0; way < ways.size(); ++way) {
            soil(heap, bytes);
            soil(heap, 2 * bytes);
            ways[way](heap.root(0), bytes);
            const auto* const grown = static_cast<char*>(heap.realloc_to(heap.root(0), 2 * bytes, zeroed));
            EXPECT_THAT(std::vector<char>(grown, grown + 2 * bytes), Each(0)) << bytes << " bytes, way " << way;
            heap.free_from(heap.root(0));
        }
    }
    EXPECT_THAT(heap.check(false), IsEmpty());
}

/// Pages of a block that have memory, of those that it has as a whole.
std::size_t pages_in_memory(void* block, std::size_t bytes) {
    constexpr std::size_t page = 4096;
    const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(block) + page - 1) / page * page;
    std::vector<unsigned char> found((reinterpret_cast<std::uintptr_t>(block) + bytes - begin) / page);
    EXPECT_EQ(::mincore(reinterpret_cast<void*>(begin), found.size() * page, found.data()), 0);
    return static_cast<std::size_t>(std::count_if(found.begin(), found.end(), [](auto each) { return each % 2 == 1; }));
}

TEST_F(manager_test, a_large_zeroed_block_in_new_space_takes_no_memory) {
    constexpr std::size_t bytes = 64U << 20U;
    const auto make = [](manager& heap) {
        transaction tx(heap);
        void* const made = tx.allocate(bytes, {.zeroed = true});
        tx.store(heap.root(0), made);
        tx.commit();
        return made;
    };
    manager heap(create_only, path(), small_options());
    void* const fresh = make(heap);
    EXPECT_LT(pages_in_memory(fresh, bytes), 1024U);
    std::memset(fresh, 1, bytes);
    heap.free_from(heap.root(0));
    void* const again = make(heap);
    EXPECT_EQ(again, fresh) << "else the test shows nothing";
    EXPECT_LT(pages_in_memory(again, bytes), 1024U);
    EXPECT_TRUE(
        std::all_of(static_cast<char*>(again), static_cast<char*>(again) + bytes, [](char each) { return each == 0; }));
    std::memset(again, 1, bytes);
    heap.commit();
    heap.free_from(heap.root(0));
    void* const committed = make(heap);  // its place has ones in the files
    EXPECT_TRUE(std::all_of(static_cast<char*>(committed), static_cast<char*>(committed) + bytes,
                            [](char each) { return each == 0; }));
    static_cast<char*>(committed)[5] = 7;
    heap.commit();
    heap.close();
    const manager read(open_read_only, path());
    const auto* const kept = static_cast<const char*>(static_cast<const void*>(read.root(0).get()));
    EXPECT_EQ(std::count(kept, kept + bytes, 0), static_cast<std::ptrdiff_t>(bytes - 1));
    EXPECT_EQ(kept[5], 7);
    EXPECT_THAT(read.check(true), IsEmpty());
}

/// A block that the transaction frees is not where the zeros are, because an abort brings it back. Few of its pages are
/// stored to, so that no commit comes before the transaction, which would give the memory a file.
TEST_F(manager_test, a_large_zeroed_block_takes_nothing_that_an_abort_needs) {
    constexpr std::size_t bytes = 64U << 20U;
    constexpr std::size_t every = 1U << 20U;
    manager heap(create_only, path(), small_options());
    auto* const first = static_cast<char*>(heap.allocate_to(heap.root(0), bytes));
    for (std::size_t at = 0; at < bytes; at += every) {
        first[at] = 1;
    }
    EXPECT_THROW(heap.transact([&] {
        heap.free_from(heap.root(0));
        char* const made = static_cast<char*>(heap.allocate_to(heap.root(0), bytes, {.zeroed = true}));
        EXPECT_NE(made, first);
        EXPECT_LT(pages_in_memory(made, bytes), bytes / every);
        EXPECT_EQ(std::count(made, made + bytes, 0), static_cast<std::ptrdiff_t>(bytes));
        throw std::runtime_error("taken back");
    }),
                 std::runtime_error);
    EXPECT_EQ(static_cast<void*>(heap.root(0).get()), first);
    for (std::size_t at = 0; at < bytes; at += every) {
        EXPECT_EQ(first[at], 1) << at;
    }
    EXPECT_EQ(std::count(first, first + bytes, 0), static_cast<std::ptrdiff_t>(bytes - bytes / every));
}

}  // namespace
}  // namespace holdfast
