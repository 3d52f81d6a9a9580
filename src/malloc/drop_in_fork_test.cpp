// What a child of fork finds, whatever the other threads of its parent were doing.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "malloc/drop_in_test_support.hpp"

namespace holdfast::drop_in {
namespace {

using testing::HasSubstr;

class drop_in_fork_test : public drop_in_test {};

TEST_P(drop_in_fork_test, parent_and_child_of_fork_go_on_apart) {
    run([] {
        constexpr unsigned threads = 3;
        std::atomic<bool> stop{false};
        std::latch begun(threads);
        std::vector<std::jthread> busy;
        for (unsigned t = 0; t < threads; ++t) {
            busy.emplace_back([&stop, &begun, t] {
                begun.count_down();
                while (!stop) {
                    work_for_a_while(t, 200);
                }
            });
        }
        begun.wait();
        auto* const shared = static_cast<char*>(allocate(1000));
        std::strcpy(shared, "before");
        bool apart = true;
        for (int i = 0; i < 20 && apart; ++i) {
            apart = base::succeeds_in_child([&] {
                const bool same = std::strcmp(shared, "before") == 0;
                std::strcpy(shared, "child");
                work_for_a_while(99, 500);
                free(shared);
                return base::succeeds_in_child([] { work_for_a_while(98, 300); }) && same;
            });
            apart = apart && std::strcmp(shared, "before") == 0;
        }
        EXPECT_TRUE(apart);
        stop = true;
        busy.clear();
        free(shared);
    });
}

/// The shortest paths alone change the heap: nothing but fork itself stands between a thread and the child's copy.
TEST_P(drop_in_fork_test, forks_in_the_middle_of_short_calls) {
    run([] {
        std::atomic<bool> stop{false};
        std::jthread busy([&stop] {
            while (!stop) {
                allocate_and_free_small(1000);
            }
        });
        bool all = true;
        for (int i = 0; i < 50 && all; ++i) {
            all = base::succeeds_in_child([] {
                work_for_a_while(1, 300);
                allocate_and_free_small(3000);
            });
        }
        EXPECT_TRUE(all);
        stop = true;
    });
}

TEST_P(drop_in_fork_test, forks_of_several_threads_at_once) {
    run([] {
        ::alarm(30);
        constexpr unsigned threads = 3;
        std::latch begun(threads);
        std::vector<std::jthread> forking;
        for (unsigned t = 0; t < threads; ++t) {
            forking.emplace_back([&begun, t] {
                allocate_and_free_small(100);
                begun.arrive_and_wait();
                for (int i = 0; i < 40; ++i) {
                    ASSERT_TRUE(base::succeeds_in_child([t] { work_for_a_while(t, 20); }));
                }
            });
        }
    });
}

bool has_upkeep_thread() {
    const std::filesystem::directory_iterator threads("/proc/self/task");
    return std::any_of(begin(threads), end(threads), [](const auto& thread) {
        std::string name;
        std::getline(std::ifstream(thread.path() / "comm"), name);
        return name == "holdfast-upkeep";
    });
}

/// A thread has its name a moment after its begin. False after a minute.
bool gets_upkeep_thread() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!has_upkeep_thread()) {
        if (std::chrono::steady_clock::now() > end) {
            return false;
        }
        std::this_thread::yield();
    }
    return true;
}

TEST_P(drop_in_fork_test, a_child_gets_an_upkeep_thread_of_its_own_when_it_allocates) {
    const outcome done = in_process([this] {
        settings with_thread = wanted();
        with_thread.upkeep_thread = true;
        ASSERT_TRUE(open(with_thread));
        ASSERT_TRUE(gets_upkeep_thread());
        for (int i = 0; i < 20; ++i) {
            work_for_a_while(1, 300);
            ASSERT_TRUE(base::succeeds_in_child([] {
                const bool had_none = !has_upkeep_thread();
                work_for_a_while(2, 2000);
                return had_none && gets_upkeep_thread() && base::succeeds_in_child([] { return !has_upkeep_thread(); });
            }));
        }
        close();
    });
    EXPECT_TRUE(done.passed) << done.said;
}

/// The parent would wait for its child by a pipe.
TEST_P(drop_in_fork_test, a_child_of_fork_ends_where_there_is_no_file_descriptor_to_copy_the_heap) {
    run([] {
        rlimit before{};
        ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
        const rlimit none{0, before.rlim_max};
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
        const base::process_end end = base::run_in_child([] { work_for_a_while(1, 100); });
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
        ASSERT_EQ(end.exit_status(), GetParam() ? 127 : 0) << end;
        ASSERT_TRUE(base::succeeds_in_child([] { work_for_a_while(1, 100); }));
    });
}

TEST_P(drop_in_fork_test, a_child_has_the_blocks_of_a_heap_that_its_parent_has_closed) {
    run([] {
        auto* const left = static_cast<char*>(allocate(100));
        std::strcpy(left, "left");
        close();
        ASSERT_TRUE(base::succeeds_in_child([left] {
            auto* const longer = static_cast<char*>(reallocate(left, 100'000));
            work_for_a_while(1, 300);
            return longer != nullptr && std::strcmp(longer, "left") == 0 &&
                   base::succeeds_in_child([longer] { return std::strcmp(longer, "left") == 0; });
        }));
        ASSERT_STREQ(left, "left");
        work_for_a_while(1, 300);
    });
}

/// Where a heap has too few addresses, no gate keeps threads out of the arena while another one forks.
TEST(drop_in_memory_test, forks_in_the_middle_of_calls_where_the_arena_serves_all) {
    const outcome done = in_process([] {
        std::uint64_t pages_in_use = 0;
        std::ifstream("/proc/self/statm") >> pages_in_use;
        const std::uint64_t most = pages_in_use * base::page_size + 96 * base::mebibyte;
        const rlimit limit{most, most};
        ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
        ASSERT_FALSE(open({"", 0, false}));
        std::atomic<bool> stop{false};
        std::jthread busy([&stop] {
            while (!stop) {
                allocate_and_free_small(1000);
            }
        });
        bool all = true;
        for (int i = 0; i < 200 && all; ++i) {
            all = base::succeeds_in_child([] {
                ::alarm(30);
                allocate_and_free_small(10);
            });
        }
        EXPECT_TRUE(all);
        stop = true;
    });
    EXPECT_TRUE(done.passed) << done.said;
    EXPECT_THAT(done.said, HasSubstr("ulimit -v"));
}

INSTANTIATE_TEST_SUITE_P(heaps, drop_in_fork_test, testing::Bool(),
                         [](const auto& with) { return with.param ? "with_a_path" : "without_files"; });

}  // namespace
}  // namespace holdfast::drop_in
