// Heaps and fork: a child continues a copy of a scratch heap, and on request of a heap of durability `collect`.
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "heap/heap.hpp"
#include "segment/test_support.hpp"

namespace holdfast::heap {
namespace {

using segment::must;
using testing::IsEmpty;

engine_options collecting_heap() {
    engine_options options;
    options.files.segment_size = segment::minimum_segment_size;
    options.files.mapping.reservation = base::gibibyte;
    options.durability = durability_kind::collect;
    options.accept_process_crash_only = true;
    return options;
}

std::vector<char*> fill(engine& heap, std::size_t count, char with) {
    std::vector<char*> blocks;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t bytes = i % 10 == 0 ? 50'000 : 100 + i % 300;
        blocks.push_back(static_cast<char*>(heap.allocate(bytes, 16)));
        if (blocks.back() == nullptr) {
            throw std::bad_alloc();
        }
        std::memset(blocks.back(), with, 100);
    }
    return blocks;
}

bool holds(const std::vector<char*>& blocks, char with) {
    return std::ranges::all_of(blocks, [with](const char* block) { return block[0] == with && block[99] == with; });
}

TEST(heap_fork_test, a_heap_without_files_allocates_and_grows) {
    const auto heap = must(engine::create_scratch(collecting_heap()));
    const auto blocks = fill(*heap, 5000, 'a');
    EXPECT_TRUE(holds(blocks, 'a'));
    EXPECT_GT(must(heap->statistics()).user_bytes, 20 * base::mebibyte);
    for (char* const block : blocks) {
        EXPECT_TRUE(heap->try_deallocate(block));
        EXPECT_FALSE(heap->try_deallocate(block));
    }
    EXPECT_TRUE(heap->blocks().inspect().all_free());
    EXPECT_THAT(heap->check(false), IsEmpty());
    EXPECT_EQ(heap->commit().error().code, base::failure_code::unsupported);
    EXPECT_TRUE(heap->close(true));
}

TEST(heap_fork_test, a_heap_without_files_gives_memory_back) {
    engine_options options = collecting_heap();
    options.decay_ns = 0;
    const auto heap = must(engine::create_scratch(options));
    auto* const block = static_cast<char*>(heap->allocate(64 * base::mebibyte, 16));
    std::memset(block, 1, 64 * base::mebibyte);
    EXPECT_TRUE(heap->try_deallocate(block));
    EXPECT_EQ(block[5], 0) << "the memory is the system's again";
}

TEST(heap_fork_test, parent_and_child_go_on_with_heaps_of_their_own) {
    for (const bool scratch : {true, false}) {
        const segment::test_directory directory;
        const auto heap = must(scratch ? engine::create_scratch(collecting_heap())
                                       : engine::create(directory.path("heap"), collecting_heap()));
        heap->forks().keep_in_children();
        auto blocks = fill(*heap, 3000, 'a');
        must(heap->forks().prepare());
        for (const fork_point forked : {fork_point::between_calls, fork_point::within_a_call}) {
            EXPECT_TRUE(base::succeeds_in_child([&] {
                must(heap->forks().continue_in_child(forked));
                const bool same = holds(blocks, 'a');
                const auto own = fill(*heap, 3000, 'c');
                std::ranges::for_each(blocks, [&](char* block) { std::memset(block, 'c', 100); });
                const bool freed =
                    std::ranges::all_of(blocks, [&](char* block) { return heap->try_deallocate(block); });
                return same && freed && holds(own, 'c') && heap->check(false).empty();
            }));
        }
        heap->forks().resume();
        EXPECT_TRUE(holds(blocks, 'a'));
        const auto more = fill(*heap, 1000, 'b');
        EXPECT_TRUE(holds(blocks, 'a'));
        EXPECT_THAT(heap->check(false), IsEmpty());
        EXPECT_EQ(must(heap->statistics()).allocated_blocks, 4000U);
        must(heap->close(true));
    }
}

/// Was: a fork within a call read all that lies below the heap's end, which takes space on tmpfs, 0.3 s for 262 MB.
TEST(heap_fork_test, a_copy_for_a_child_takes_no_space_for_what_is_free) {
    const segment::test_directory directory;
    engine_options options = collecting_heap();
    options.decay_ns = 0;
    const auto heap = must(engine::create(directory.path("heap"), options));
    heap->forks().keep_in_children();
    auto* const large = static_cast<char*>(heap->allocate(64 * base::mebibyte, 16));
    std::memset(large, 'l', 64 * base::mebibyte);
    const auto blocks = fill(*heap, 3000, 'a');
    EXPECT_TRUE(heap->try_deallocate(large));
    const std::uint64_t before = must(heap->files().location().sizes()).charged_bytes;
    EXPECT_LT(before, 32 * base::mebibyte) << "the freed block's space went back";
    must(heap->forks().prepare());
    for (const fork_point forked : {fork_point::between_calls, fork_point::within_a_call}) {
        EXPECT_TRUE(base::succeeds_in_child([&] {
            must(heap->forks().continue_in_child(forked));
            return holds(blocks, 'a') && large[5] == 0;
        }));
        EXPECT_LT(must(heap->files().location().sizes()).charged_bytes, before + 4 * base::mebibyte) << "tables";
    }
    heap->forks().resume();
    must(heap->close(true));
}

TEST(heap_fork_test, a_child_that_goes_on_with_a_copy_has_its_guard_ranges) {
    for (const bool scratch : {true, false}) {
        const segment::test_directory directory;
        engine_options options = collecting_heap();
        options.hardened = true;
        const auto heap =
            must(scratch ? engine::create_scratch(options) : engine::create(directory.path("heap"), options));
        heap->forks().keep_in_children();
        const auto blocks = fill(*heap, 5000, 'a');
        const std::uint64_t guards = heap->blocks().slabs().source().guards().count();
        EXPECT_GE(guards, 10U);
        const auto continues = [&](fork_point forked) {
            must(heap->forks().continue_in_child(forked));
            return holds(blocks, 'a') && heap->blocks().slabs().source().guards().count() == guards &&
                   heap->check(false).empty();
        };
        must(heap->forks().prepare());
        EXPECT_TRUE(base::succeeds_in_child([&] {
            const bool freed = continues(fork_point::between_calls) &&
                               std::ranges::all_of(blocks, [&](char* block) { return heap->try_deallocate(block); });
            heap->blocks().small().release_unused();
            return freed && heap->blocks().slabs().source().guards().count() == 0 && heap->check(false).empty();
        })) << scratch;
        EXPECT_TRUE(base::succeeds_in_child([&] {
            volatile char* behind = nullptr;
            heap->blocks().slabs().source().guards().for_each([&](base::granule range) {
                behind = reinterpret_cast<char*>(heap->files().view().address(base::offset_of(range)));
            });
            if (!continues(fork_point::within_a_call) || behind == nullptr) {
                return false;
            }
            std::signal(SIGSEGV, [](int) { ::_exit(0); });
            *behind = 1;
            return false;  // the guard range could be stored to
        })) << scratch;
        heap->forks().resume();
        EXPECT_EQ(heap->blocks().slabs().source().guards().count(), guards);
        EXPECT_THAT(heap->check(false), IsEmpty());
        must(heap->close(true));
    }
}

TEST(heap_fork_test, a_child_is_refused_a_heap_that_it_does_not_have) {
    const segment::test_directory directory;
    const auto heap = must(engine::create(directory.path("heap"), collecting_heap()));
    void* const block = heap->allocate(100, 16);
    EXPECT_TRUE(base::succeeds_in_child([&] {
        const bool refused = heap->allocate(100, 16) == nullptr && !heap->try_deallocate(block);
        return refused && engine::last_failure().code == base::failure_code::wrong_process;
    }));
    EXPECT_TRUE(heap->try_deallocate(block));
    must(heap->close(true));
}

TEST(heap_fork_test, a_child_that_allocates_leaves_the_commits_of_its_parent_alone) {
    const segment::test_directory directory;
    const std::string path = directory.path("heap");
    engine_options options = collecting_heap();
    options.durability = durability_kind::commit;
    must(must(engine::create(path, options))->close(true));
    auto heap = must(engine::open(path, persist::access_mode::read_write, options));
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    base::child_process child([&] {
        char told = 0;
        return ::read(ends[0], &told, 1) == 1 && heap->allocate(base::mebibyte, 16) == nullptr &&
               engine::last_failure().code == base::failure_code::wrong_process;
    });
    for (int i = 0; i < 3; ++i) {
        ASSERT_NE(heap->allocate(8 * base::mebibyte, 16), nullptr);
        must(heap->commit());
    }
    must(heap->close(true));
    heap.reset();
    ASSERT_EQ(::write(ends[1], "", 1), 1);
    EXPECT_TRUE(child.wait().succeeded());
    ::close(ends[0]);
    ::close(ends[1]);
    const auto again = must(engine::open(path, persist::access_mode::read_only, options));
    EXPECT_FALSE(again->files().recovered());
    EXPECT_EQ(must(again->statistics()).allocated_blocks, 3U);
    EXPECT_THAT(again->check(true), IsEmpty());
}

/// Other threads are in the middle of opens, closes, first calls and ends of threads when the process forks.
TEST(heap_fork_test, a_child_opens_heaps_of_its_own_whatever_its_parent_was_doing) {
    const segment::test_directory directory;
    const auto use = [](const std::unique_ptr<engine>& heap) {
        const bool got = heap->allocate(100, 16) != nullptr;
        return got && heap->close(true).ok();
    };
    const auto use_scratch = [&use] { return use(must(engine::create_scratch(collecting_heap()))); };
    const auto shared = must(engine::create_scratch(collecting_heap()));
    std::atomic<bool> stop{false};
    std::vector<std::jthread> busy;
    for (int i = 0; i < 2; ++i) {
        busy.emplace_back([&] {
            while (!stop) {
                ASSERT_TRUE(use_scratch());
            }
        });
    }
    busy.emplace_back([&] {
        while (!stop) {
            std::jthread([&] { ASSERT_NE(shared->allocate(100, 16), nullptr); }).join();
        }
    });
    constexpr int forks = 250;
    bool all = true;
    for (int i = 0; i < forks && all; ++i) {
        all = base::succeeds_in_child([&] {
            ::alarm(30);
            return use_scratch() &&
                   use(must(engine::create(directory.path("child" + std::to_string(i)), collecting_heap())));
        });
        EXPECT_TRUE(all) << i;
    }
    stop = true;
}

}  // namespace
}  // namespace holdfast::heap
