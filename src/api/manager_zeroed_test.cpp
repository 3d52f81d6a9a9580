// allocation_traits::zeroed, in every durability: what a program finds behind the bytes that it had asked for.
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "api/manager_test_support.hpp"
#include "base/process_test_support.hpp"

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

/// In bytes, what this process has mapped of files included.
std::size_t resident_memory() {
    std::ifstream file("/proc/self/statm");
    std::size_t all = 0;
    std::size_t resident = 0;
    file >> all >> resident;
    return resident * 4096;
}

class shared_zeros_test : public testing::TestWithParam<std::tuple<durability, segment::place>> {
protected:
    [[nodiscard]] open_options options() const {
        open_options wanted = small_options();
        wanted.durability = std::get<0>(GetParam());
        wanted.accept_process_crash_only = true;
        return wanted;
    }
    [[nodiscard]] std::string path() const { return directory_.path("heap"); }
    [[nodiscard]] bool is_on_disk() const { return !base::is_in_memory(directory_.path()); }

    segment::test_directory directory_{std::get<1>(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(in, shared_zeros_test,
                         testing::Combine(testing::Values(durability::atomic, durability::collect),
                                          testing::Values(segment::place::memory, segment::place::disk)),
                         [](const auto& each) {
                             return std::string(std::get<0>(each.param) == durability::atomic ? "atomic" : "collect") +
                                    (std::get<1>(each.param) == segment::place::memory ? "_memory" : "_disk");
                         });

TEST_P(shared_zeros_test, take_no_memory_in_space_that_nobody_has_stored_to) {
    constexpr std::size_t bytes = (32U << 20U) + 12'345;
    constexpr std::size_t most = 4U << 20U;
    constexpr allocation_traits zeroed{.zeroed = true};
    manager heap(create_only, path(), options());
    const std::vector<std::function<void*(ptr<void>&)>> ways{
        [&](ptr<void>& root) { return heap.allocate_to(root, bytes, zeroed); },
        [&](ptr<void>& root) {
            root = heap.allocate(bytes, zeroed);
            return root.get();
        },
        [&](ptr<void>& root) {
            transaction tx(heap);
            tx.store(root, tx.allocate(bytes, zeroed));
            tx.commit();
            return root.get();
        },
    };
    for (std::size_t way = 0; way < ways.size(); ++way) {
        const std::size_t before = resident_memory();
        static_cast<void>(ways[way](heap.root(way)));
        if (is_on_disk()) {  // on tmpfs, space that was reserved is memory, and may be as good as stored to
            EXPECT_LT(resident_memory(), before + most) << way;
        }
    }
    for (std::size_t way = 0; way < ways.size(); ++way) {
        const char* const made = static_cast<char*>(heap.root(way).get());
        EXPECT_EQ(static_cast<std::size_t>(std::count(made, made + bytes, 0)), bytes) << way;
    }
}

/// Whatever of a freed block became a hole, and whatever did not.
TEST_P(shared_zeros_test, are_zeros_in_space_that_was_used_before) {
    constexpr allocation_traits zeroed{.zeroed = true};
    manager heap(create_only, path(), options());
    for (const std::size_t bytes : {std::size_t{3} << 20U, std::size_t{9} << 20U, std::size_t{33} << 20U}) {
        for (const std::size_t every : {std::size_t{4096}, std::size_t{1} << 20U}) {
            void* const first = heap.allocate_to(heap.root(0), bytes);
            for (std::size_t at = 0; at < bytes; at += every) {
                static_cast<char*>(first)[at] = 1;
            }
            heap.free_from(heap.root(0));
            const char* const made = static_cast<char*>(heap.allocate_to(heap.root(0), bytes, zeroed));
            EXPECT_EQ(static_cast<std::size_t>(std::count(made, made + bytes, 0)), bytes) << bytes << " " << every;
            static_cast<char*>(heap.root(0).get())[bytes / 2] = 7;
            heap.free_from(heap.root(0));
        }
    }
    constexpr std::ptrdiff_t whole = std::ptrdiff_t{33} << 20U;
    const char* const last = static_cast<char*>(heap.allocate_to(heap.root(0), whole, zeroed));
    EXPECT_EQ(std::count(last, last + whole, 0), whole);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(shared_zeros_test, of_a_killed_process_are_zeros_with_what_it_stored) {
    constexpr std::size_t bytes = 16U << 20U;
    const base::process_end end = base::run_in_child([&] {
        manager heap(create_only, path(), options());
        auto* const made = static_cast<char*>(heap.allocate_to(heap.root(0), bytes, {.zeroed = true}));
        made[bytes / 3] = 5;
        std::raise(SIGKILL);
    });
    ASSERT_TRUE(end.was_killed()) << end;
    open_options wanted = options();
    const manager heap(open_only, path(), wanted);
    const char* const kept = static_cast<const char*>(heap.root(0).get());
    ASSERT_NE(kept, nullptr);
    EXPECT_EQ(kept[bytes / 3], 5);
    EXPECT_EQ(static_cast<std::size_t>(std::count(kept, kept + bytes, 0)), bytes - 1);
}

}  // namespace
}  // namespace holdfast
