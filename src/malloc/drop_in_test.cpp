#include "malloc/drop_in.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <latch>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "malloc/drop_in_test_support.hpp"

namespace holdfast::drop_in {
namespace {

using segment::must;
using testing::HasSubstr;

TEST_P(drop_in_test, keeps_what_malloc_promises) {
    run([] {
        for (const std::size_t bytes : {0U, 1U, 8U, 24U, 100U, 14336U, 14337U, 100000U, 20U << 20U}) {
            auto* const block = static_cast<unsigned char*>(allocate(bytes));
            ASSERT_NE(block, nullptr);
            ASSERT_TRUE(is_in_heap(block));
            ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % 16, 0U);
            ASSERT_GE(usable_size(block), bytes);
            std::memset(block, 1, usable_size(block));
            free(block);
            auto* const zeroed = static_cast<unsigned char*>(allocate_zeroed(bytes, 1));
            ASSERT_TRUE(std::all_of(zeroed, zeroed + bytes, [](unsigned char byte) { return byte == 0; }));
            free(zeroed);
        }
        for (std::size_t alignment = 1; alignment <= (2U << 20U); alignment *= 2) {
            void* const block = allocate(100, alignment);
            ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U);
            free(block);
        }
        ASSERT_EQ(reallocate(allocate(10), 0), nullptr);
        work_for_a_while(1, 5000);
    });
}

bool all_zero(const unsigned char* block, std::size_t bytes) {
    return block[0] == 0 && std::memcmp(block, block + 1, bytes - 1) == 0;
}

void expect_zeros_after_use(std::size_t bytes) {
    for (int round = 0; round < 3; ++round) {
        auto* const used = static_cast<unsigned char*>(allocate(bytes));
        ASSERT_NE(used, nullptr);
        std::memset(used, 0xff, usable_size(used));
        free(used);
        auto* zeroed = static_cast<unsigned char*>(allocate_zeroed(bytes, 1));
        ASSERT_NE(zeroed, nullptr);
        ASSERT_TRUE(all_zero(zeroed, bytes)) << bytes;
        for (std::size_t at = 0; at < bytes; at += 3 * base::page_size) {
            zeroed[at] = 1;  // some pages have memory, some may have none
        }
        free(zeroed);
        zeroed = static_cast<unsigned char*>(allocate_zeroed(bytes, 1));
        ASSERT_TRUE(all_zero(zeroed, bytes)) << bytes;
        zeroed[bytes - 1] = 7;
        zeroed = static_cast<unsigned char*>(reallocate(zeroed, 2 * bytes));
        ASSERT_NE(zeroed, nullptr);
        ASSERT_TRUE(all_zero(zeroed, bytes - 1)) << bytes;
        ASSERT_EQ(zeroed[bytes - 1], 7);
        free(zeroed);
    }
}

TEST_P(drop_in_test, zeroes_large_blocks_that_were_used) {
    run([] {
        constexpr std::size_t mebibyte = base::mebibyte;
        for (const std::size_t bytes : {mebibyte + 5, 2 * mebibyte - 1, 2 * mebibyte, 5 * mebibyte + 4096,
                                        17 * mebibyte - 3, 32 * mebibyte - 1, 40 * mebibyte + 12345}) {
            expect_zeros_after_use(bytes);
        }
    });
}

TEST_P(drop_in_test, zeroes_large_blocks_in_a_child_of_fork_and_not_those_of_its_parent) {
    run([] {
        constexpr std::size_t bytes = 40 * base::mebibyte;
        auto* const of_parent = static_cast<unsigned char*>(allocate(bytes));
        std::memset(of_parent, 5, bytes);
        base::child_process child([&] {
            ASSERT_EQ(of_parent[bytes - 1], 5);
            free(of_parent);
            expect_zeros_after_use(bytes);
            expect_zeros_after_use(3 * base::mebibyte);
        });
        ASSERT_TRUE(child.wait().succeeded());
        ASSERT_EQ(of_parent[0], 5);
        ASSERT_EQ(std::memcmp(of_parent, of_parent + 1, bytes - 1), 0);
        free(of_parent);
    });
}

std::uint64_t resident_bytes() {
    std::uint64_t all = 0;
    std::uint64_t resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return resident * base::page_size;
}

TEST(drop_in_memory_test, zeroed_blocks_that_nobody_touches_take_no_memory) {
    const outcome done = in_process([] {
        ASSERT_TRUE(open({}));
        const std::uint64_t before = resident_bytes();
        for (const std::uint64_t bytes : {base::gibibyte, 31 * base::mebibyte}) {
            auto* const block = static_cast<unsigned char*>(allocate_zeroed(1, bytes));
            ASSERT_NE(block, nullptr);
            ASSERT_LT(resident_bytes(), before + 4 * base::mebibyte);
            ASSERT_EQ(block[0] + block[bytes / 2] + block[bytes - 1], 0);
            std::memset(block, 9, 48 * base::mebibyte < bytes ? 48 * base::mebibyte : bytes);
            ASSERT_GT(resident_bytes(), before + 16 * base::mebibyte) << "this test sees no memory";
            free(block);
        }
        auto* const again = static_cast<unsigned char*>(allocate_zeroed(1, base::gibibyte));
        ASSERT_LT(resident_bytes(), before + 40 * base::mebibyte);
        ASSERT_TRUE(all_zero(again, 64 * base::mebibyte));
        free(again);
    });
    EXPECT_TRUE(done.passed) << done.said;
}

TEST(drop_in_memory_test, large_blocks_take_their_pages_along_when_they_move) {
    const outcome done = in_process([] {
        ASSERT_TRUE(open({}));
        constexpr std::size_t step = 8 * base::mebibyte;
        std::array<unsigned char*, 3> blocks{};
        const std::uint64_t before = resident_bytes();
        std::uint64_t most = 0;
        for (std::size_t bytes = step; bytes <= 12 * step; bytes += step) {
            for (unsigned char*& block : blocks) {
                block = static_cast<unsigned char*>(reallocate(block, bytes));
                ASSERT_NE(block, nullptr);
                most = std::max(most, resident_bytes());
                std::memset(block + bytes - step, static_cast<int>(bytes / step), step);
            }
        }
        for (const unsigned char* const block : blocks) {
            for (std::size_t i = 0; i < 12; ++i) {
                ASSERT_EQ(block[i * step], i + 1);
                ASSERT_EQ(std::memcmp(block + i * step, block + i * step + 1, step - 1), 0) << i;
            }
        }
        ASSERT_LT(most, before + 3 * 12 * step + 8 * base::mebibyte) << "a copy was made beside a block";
    });
    EXPECT_TRUE(done.passed) << done.said;
}

TEST(drop_in_memory_test, blocks_that_grow_in_turn_move_once_for_a_doubling) {
    const outcome done = in_process([] {
        ASSERT_TRUE(open({}));
        constexpr std::size_t most = 4 * base::mebibyte;
        constexpr std::size_t first = base::page_size;
        std::array<unsigned char*, 8> blocks{};
        std::array<unsigned, 8> moves{};
        const std::uint64_t before = resident_bytes();
        for (std::size_t bytes = first; bytes <= most; bytes += base::page_size) {
            for (std::size_t i = 0; i < blocks.size(); ++i) {
                auto* const grown = static_cast<unsigned char*>(reallocate(blocks[i], bytes));
                ASSERT_NE(grown, nullptr);
                moves[i] += grown != blocks[i] ? 1U : 0U;
                blocks[i] = grown;
                std::memset(grown + bytes - base::page_size, static_cast<int>(i + 1), base::page_size);
            }
        }
        const std::uint64_t taken = resident_bytes() - before;
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            ASSERT_LE(moves[i], 10U) << i;
            ASSERT_EQ(blocks[i][0], i + 1);
            ASSERT_EQ(std::memcmp(blocks[i], blocks[i] + 1, most - 1), 0) << i;
        }
        ASSERT_LT(taken, 2 * blocks.size() * most) << "room takes no memory; what they left may have some";
    });
    EXPECT_TRUE(done.passed) << done.said;
}

TEST_P(drop_in_test, fails_with_enomem_and_keeps_errno_else) {
    run([] {
        errno = 5;
        void* const block = allocate(100);
        free(block);
        ASSERT_EQ(errno, 5);
        ASSERT_EQ(allocate(SIZE_MAX), nullptr);
        ASSERT_EQ(errno, ENOMEM);
        errno = 0;
        ASSERT_EQ(allocate_zeroed(SIZE_MAX / 2, 4), nullptr);
        ASSERT_EQ(errno, ENOMEM);
        errno = 0;
        void* const kept = allocate(100);
        ASSERT_EQ(reallocate(kept, SIZE_MAX / 2), nullptr);
        ASSERT_EQ(errno, ENOMEM);
        free(kept);
    });
}

TEST_P(drop_in_test, serves_threads_that_come_and_go) {
    run([] {
        for (int round = 0; round < 5; ++round) {
            std::vector<std::jthread> threads;
            for (unsigned t = 0; t < 4; ++t) {
                threads.emplace_back(work_for_a_while, t, 2000);
            }
        }
    });
}

TEST_P(drop_in_test, frees_what_other_threads_allocated) {
    run([] {
        std::vector<void*> blocks;
        std::jthread([&] {
            for (std::size_t i = 0; i < 5000; ++i) {
                blocks.push_back(allocate(i % 700));
            }
        }).join();
        for (void* const block : blocks) {
            ASSERT_GT(usable_size(block), 0U);
            free(block);
            ASSERT_EQ(usable_size(block), 0U);
        }
    });
}

TEST_P(drop_in_test, threads_with_a_small_stack_make_the_heap_grow) {
    run([] {
        pthread_attr_t small{};
        ASSERT_EQ(::pthread_attr_init(&small), 0);
        ASSERT_EQ(::pthread_attr_setstacksize(&small, std::size_t{32} * 1024), 0);
        const auto grow = [](void*) -> void* {
            for (int i = 0; i < 8; ++i) {
                static_cast<void>(allocate(3 * base::mebibyte));
            }
            return nullptr;
        };
        pthread_t thread{};
        ASSERT_EQ(::pthread_create(&thread, &small, grow, nullptr), 0);
        ASSERT_EQ(::pthread_join(thread, nullptr), 0);
        ::pthread_attr_destroy(&small);
    });
}

struct frees_late {
    void* block = nullptr;
    frees_late() = default;
    frees_late(const frees_late&) = delete;
    frees_late& operator=(const frees_late&) = delete;
    ~frees_late() {
        free(block);
        free(allocate(100));  // a thread that has ended may still ask
    }
};

TEST_P(drop_in_test, serves_destructors_of_threads_that_have_no_cache_any_more) {
    run([] {
        for (int i = 0; i < 50; ++i) {
            std::jthread([] {
                static thread_local frees_late early;  // before the first call, so that it ends after the cache
                early.block = nullptr;
                early.block = allocate(200);
                free(allocate(10));
            }).join();
        }
    });
}

/// An open that frees what an earlier process left gives its thread a cache, whose end is work of the allocator, too.
TEST_P(drop_in_test, a_thread_is_known_from_its_open_on) {
    run([] { ASSERT_NE(allocate(100), nullptr); });
    struct allocates_late {
        bool* in_heap = nullptr;
        allocates_late() = default;
        allocates_late(const allocates_late&) = delete;
        allocates_late& operator=(const allocates_late&) = delete;
        ~allocates_late() {
            void* const block = allocate(100);
            *in_heap = is_in_heap(block);
            free(block);
        }
    };
    const outcome done = in_process([this] {
        bool in_heap = false;
        std::jthread([&] {
            ASSERT_TRUE(open(wanted()));
            static thread_local allocates_late ends_before_the_cache;
            ends_before_the_cache.in_heap = &in_heap;
            free(allocate(100));
        }).join();
        ASSERT_TRUE(in_heap) << "the thread counts as ended before its cache has ended";
        close();
    });
    EXPECT_TRUE(done.passed) << done.said;
}

/// Where a thread's first call comes from the destructor of a key, its thread-local objects are destroyed no more.
TEST_P(drop_in_test, threads_that_call_first_when_they_end_are_forgotten) {
    run([] {
        ::alarm(30);
        pthread_key_t key{};
        ASSERT_EQ(::pthread_key_create(&key, [](void* block) { free(block); }), 0);
        for (int i = 0; i < 10; ++i) {
            void* const block = allocate(100'000);
            std::jthread([&] { ::pthread_setspecific(key, block); }).join();
            ASSERT_EQ(usable_size(block), 0U);
        }
        ASSERT_TRUE(base::succeeds_in_child([] { work_for_a_while(1, 100); }));
        ::pthread_key_delete(key);
    });
}

TEST_P(drop_in_test, names_the_first_invalid_free_and_goes_on) {
    const outcome done = in_process([this] {
        ASSERT_TRUE(open(wanted()));
        int here = 0;
        auto* const block = static_cast<char*>(allocate(100));
        free(&here);
        free(block + 16);
        free(block);
        free(block);
        ASSERT_EQ(reallocate(&here, 10), nullptr);
        work_for_a_while(1, 500);
        close();
    });
    EXPECT_TRUE(done.passed) << done.said;
    EXPECT_THAT(done.said, HasSubstr("free of 0x"));
    EXPECT_EQ(done.said.find("ignored"), done.said.rfind("ignored")) << "once: " << done.said;
}

TEST_P(drop_in_test, serves_before_it_is_open_and_after_it_is_closed) {
    const outcome done = in_process([this] {
        void* const before = allocate(100);
        ASSERT_NE(before, nullptr);
        ASSERT_FALSE(is_in_heap(before));
        ASSERT_TRUE(open(wanted()));
        void* const moved = reallocate(before, 1000);
        ASSERT_TRUE(is_in_heap(moved));
        auto* const left = static_cast<char*>(allocate(100));
        std::strcpy(left, "left");
        auto* const large = static_cast<char*>(allocate(100'000));
        std::strcpy(large, "large");
        close();
        void* const after = allocate(100);
        ASSERT_NE(after, nullptr);
        ASSERT_EQ(is_in_heap(after), !GetParam()) << "a heap without files serves as long as the process runs";
        free(after);
        ASSERT_GE(usable_size(large), 100'000U);
        auto* const larger = static_cast<char*>(reallocate(large, 200'000));
        ASSERT_NE(larger, nullptr);
        ASSERT_STREQ(larger, "large");
        auto* const longer = static_cast<char*>(reallocate(left, 1000));
        ASSERT_NE(longer, nullptr);
        ASSERT_STREQ(longer, "left");
        free(longer);
        free(larger);
        free(moved);
    });
    EXPECT_TRUE(done.passed) << done.said;
    EXPECT_EQ(done.said, "");
}

TEST_P(drop_in_test, threads_that_outlive_main_go_on) {
    const outcome done = in_process([this] {
        ASSERT_TRUE(open(wanted()));
        constexpr unsigned threads = 2;
        std::atomic<bool> stop{false};
        std::latch begun(threads);
        std::vector<std::jthread> busy;
        for (unsigned t = 0; t < threads; ++t) {
            busy.emplace_back([&stop, &begun, t] {
                work_for_a_while(t, 200);
                begun.count_down();
                while (!stop) {
                    allocate_and_free_small(10'000);
                }
            });
        }
        begun.wait();
        close();
        allocate_and_free_small(1'000'000);  // meanwhile the others call, too
        stop = true;
    });
    EXPECT_TRUE(done.passed) << done.said;
    EXPECT_EQ(done.said, "");
}

TEST_P(drop_in_test, ends_where_its_capacity_does) {
    const outcome done = in_process([this] {
        settings small = wanted();
        small.capacity = 8U << 20U;
        ASSERT_TRUE(open(small));
        std::vector<void*> blocks;
        while (void* const block = allocate(100'000)) {
            blocks.push_back(block);
        }
        ASSERT_GT(blocks.size(), 60U);
        ASSERT_LT(blocks.size(), 84U);
        for (void* const block : blocks) {
            free(block);
        }
        ASSERT_NE(allocate(6U << 20U), nullptr);
        close();
    });
    EXPECT_TRUE(done.passed) << done.said;
}

TEST_P(drop_in_test, reuses_what_a_process_before_left_behind) {
    for (int round = 0; round < 3; ++round) {
        run([] {
            for (int i = 0; i < 1000; ++i) {
                ASSERT_NE(allocate(i % 10 == 0 ? 50'000 : 100), nullptr);
            }
        });
        if (GetParam()) {
            const auto heap = must(heap::engine::open(directory_.path("heap"), persist::access_mode::read_only, {}));
            EXPECT_EQ(must(heap->statistics()).allocated_blocks, 1000U);
        }
    }
}

TEST_P(drop_in_test, heaps_of_processes_that_were_killed_are_reused) {
    for (int round = 0; round < 3; ++round) {
        const outcome done = in_process([this] {
            ASSERT_TRUE(open(wanted()));
            work_for_a_while(1, 2000);
            for (int i = 0; i < 100; ++i) {
                ASSERT_NE(allocate(50'000), nullptr);
            }
            ::raise(SIGKILL);
        });
        EXPECT_FALSE(done.passed);
        EXPECT_EQ(done.said, "");
    }
    run([] { work_for_a_while(1, 500); });
}

INSTANTIATE_TEST_SUITE_P(heaps, drop_in_test, testing::Bool(),
                         [](const auto& with) { return with.param ? "with_a_path" : "without_files"; });

TEST(drop_in_settings_test, a_heap_that_cannot_be_had_is_replaced_and_named) {
    const outcome done = in_process([] {
        ASSERT_TRUE(open({"/nowhere/at/all/heap", 0, false}));
        work_for_a_while(1, 500);
        close();
    });
    EXPECT_TRUE(done.passed) << done.said;
    EXPECT_THAT(done.said, HasSubstr("/nowhere/at/all"));
}

TEST(drop_in_settings_test, a_heap_that_another_process_has_is_replaced_without_a_word) {
    const segment::test_directory directory;
    const auto holder = must(heap::engine::create(directory.path("heap"), {}));
    const outcome done = in_process([&] {
        ASSERT_TRUE(open({directory.path("heap"), 0, false}));
        work_for_a_while(1, 500);
        close();
    });
    EXPECT_TRUE(done.passed) << done.said;
    EXPECT_EQ(done.said, "");
}

}  // namespace
}  // namespace holdfast::drop_in
