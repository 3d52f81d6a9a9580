// Memory that waits for a commit is bounded: an error comes before the kernel ends the process; a commit makes room.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <holdfast/containers.hpp>
#include <holdfast/holdfast.h>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "api/manager_test_support.hpp"
#include "base/foreign_memory_test_support.hpp"
#include "base/process_test_support.hpp"
#include "base/units.hpp"

namespace holdfast {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

using base::mebibyte;

constexpr std::uint64_t bound = 8 * mebibyte;

open_options bounded_options(std::uint64_t most = bound) {
    open_options options = small_options();
    options.maximum_uncommitted = most;
    return options;
}

/// Blocks that are stored to, until there is no more memory for them. The text of the error.
std::string fill(manager& heap, std::size_t bytes, std::vector<void*>& blocks, std::size_t most = 1'000'000) {
    try {
        for (std::size_t i = 0; i < most; ++i) {
            blocks.push_back(heap.allocate(bytes));
            std::memset(blocks.back(), 1, bytes);
        }
    } catch (const bad_alloc& refused) {
        EXPECT_EQ(refused.reason(), errc::out_of_memory);
        return refused.what();
    }
    return {};
}

class uncommitted_test : public manager_test, public testing::WithParamInterface<std::size_t> {};

TEST_P(uncommitted_test, is_refused_beyond_the_bound_and_again_possible_after_a_commit) {
    manager heap(create_only, path(), bounded_options());
    std::vector<void*> blocks;
    for (int round = 0; round < 3; ++round) {
        const std::string refused = fill(heap, GetParam(), blocks);
        EXPECT_THAT(refused, HasSubstr("out_of_memory"));
        EXPECT_THAT(refused, HasSubstr("commit"));
        EXPECT_THAT(refused, HasSubstr("maximum_uncommitted"));
        const std::uint64_t waits = heap.statistics().private_bytes;
        EXPECT_GT(waits, bound / 2);
        EXPECT_LT(waits, bound + bound / 4);
        EXPECT_EQ(heap.allocate(GetParam(), std::nothrow), nullptr);
        for (int freed = 0; freed < 3; ++freed) {
            heap.deallocate(blocks.back());
            blocks.pop_back();
        }
        heap.commit();
    }
    EXPECT_THAT(heap.check(false), IsEmpty());
    for (void* const block : blocks) {
        heap.deallocate(block);
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
}

INSTANTIATE_TEST_SUITE_P(blocks, uncommitted_test,
                         testing::Values(std::size_t{48}, std::size_t{5000}, 100 * std::size_t{1024}, mebibyte));

TEST_F(manager_test, stores_to_blocks_that_are_there_count_for_the_bound) {
    manager heap(create_only, path(), bounded_options());
    std::vector<void*> blocks;
    while (blocks.size() < 24) {
        ASSERT_THAT(fill(heap, mebibyte, blocks, 1), IsEmpty());
        heap.commit();
    }
    for (void* const block : blocks) {
        std::memset(block, 2, mebibyte);
    }
    EXPECT_THAT(fill(heap, 48, blocks), HasSubstr("out_of_memory"));
    heap.commit();
    EXPECT_THAT(fill(heap, 48, blocks, 10'000), IsEmpty());
}

TEST_F(manager_test, a_block_larger_than_the_bound_is_given_while_little_waits) {
    manager heap(create_only, path(), bounded_options());
    auto* const large = static_cast<char*>(heap.allocate(4 * bound));
    for (std::uint64_t at = 0; at < 4 * bound; at += bound / 2) {
        std::memset(large + at, 1, bound / 2);
        heap.commit();
    }
    std::memset(large, 2, bound / 2);
    EXPECT_EQ(heap.allocate(4 * bound, std::nothrow), nullptr) << "a commit makes room for it";
    heap.commit();
    EXPECT_NE(heap.allocate(4 * bound, std::nothrow), nullptr);
}

TEST_F(manager_test, a_transaction_beyond_the_bound_is_taken_back) {
    manager heap(create_only, path(), bounded_options());
    auto& numbers = *heap.construct<vector<std::uint64_t>>("numbers")(heap.get_allocator<>());
    heap.transact([&] { numbers.assign(1000, 1); });
    std::vector<void*> blocks;
    EXPECT_THROW(heap.transact([&] {
        numbers.assign(1000, 2);
        throw bad_alloc(fill(heap, 5000, blocks));
    }),
                 bad_alloc);
    EXPECT_GT(blocks.size(), bound / 5000 / 2);
    EXPECT_EQ(numbers, vector<std::uint64_t>(1000, 1, heap.get_allocator<>()));
    EXPECT_LT(heap.statistics().private_bytes, bound / 2);
    heap.transact([&] { numbers.assign(100'000, 3); });
    EXPECT_EQ(numbers.back(), 3U);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_F(manager_test, all_ones_are_no_bound) {
    manager heap(create_only, path(), bounded_options(std::numeric_limits<std::uint64_t>::max()));
    std::vector<void*> blocks;
    EXPECT_THAT(fill(heap, mebibyte, blocks, 100), IsEmpty());
}

TEST_F(manager_test, the_bound_is_an_option_of_c) {
    hf_options options = HF_OPTIONS_INIT;
    options.maximum_uncommitted = bound;
    hf_heap* heap = nullptr;
    ASSERT_EQ(hf_create(path().c_str(), &options, &heap), HF_OK);
    void* block = nullptr;
    std::size_t given = 0;
    while ((block = hf_allocate(heap, mebibyte)) != nullptr) {
        std::memset(block, 1, mebibyte);
        ++given;
    }
    EXPECT_LE(given, bound / mebibyte);
    EXPECT_THAT(hf_errormsg(), AllOf(HasSubstr("out_of_memory"), HasSubstr("maximum_uncommitted")));
    EXPECT_EQ(hf_commit(heap), HF_OK);
    EXPECT_NE(hf_allocate(heap, mebibyte), nullptr);
    EXPECT_EQ(hf_close(heap), HF_OK);
}

/// Was: each look opened a file of /proc, and without it every allocation failed.
TEST_F(manager_test, the_bound_needs_no_files_but_those_that_are_open) {
    std::filesystem::create_directory(path("root"));
    const base::process_end end = base::run_in_child([&]() -> int {
        manager heap(create_only, path(), bounded_options());
        std::vector<void*> blocks;
        static_cast<void>(fill(heap, 48, blocks, 1000));
        heap.commit();
        if (::chroot(path("root").c_str()) != 0) {
            return 2;  // another user than root may not
        }
        const std::string refused = fill(heap, 48, blocks);
        heap.commit();
        const bool goes_on = fill(heap, 48, blocks, 1000).empty() && heap.statistics().private_bytes < bound / 2;
        if (refused.find("maximum_uncommitted") == std::string::npos || !goes_on) {
            std::fprintf(stderr, "%s\n", refused.c_str());
            return 1;
        }
        return 0;
    });
    EXPECT_TRUE(end.exit_status() == 0 || end.exit_status() == 2) << end.text();
}

/// Who allocates looks at the heap's memory while others allocate, make objects and commit.
TEST_F(manager_test, threads_that_allocate_find_the_bound_beside_those_that_make_objects_and_commit) {
    constexpr unsigned threads = 3;
    manager heap(create_only, path(), bounded_options(4 * mebibyte));
    std::shared_mutex stand_still;
    std::atomic<bool> ends{false};
    std::atomic<bool> commits{false};
    std::atomic<unsigned> refused{0};
    std::vector<std::thread> workers;
    for (unsigned id = 0; id < threads; ++id) {
        workers.emplace_back([&, id] {
            std::vector<void*> blocks;
            for (unsigned step = 0; !ends; ++step) {
                if (commits) {  // a lock alone lets those who share it go before
                    std::this_thread::yield();
                    continue;
                }
                const std::shared_lock working(stand_still);
                const std::size_t bytes = id == 0 ? 100'000 : 200 + step % 5000;
                void* const block = heap.allocate(bytes, std::nothrow);
                if (block == nullptr) {
                    ++refused;
                    continue;
                }
                std::memset(block, 1, bytes);
                blocks.push_back(block);
                if (blocks.size() > 200) {
                    heap.deallocate(blocks[step % 200]);
                    blocks[step % 200] = blocks.back();
                    blocks.pop_back();
                }
            }
        });
    }
    for (int round = 0; round < 12; ++round) {
        for (int i = 0; i < 40; ++i) {  // their directory grows
            const std::shared_lock working(stand_still);
            try {
                heap.construct<int>(("object " + std::to_string(round * 100 + i) + std::string(2000, 'x')).c_str())(i);
            } catch (const bad_alloc&) {
                ++refused;
            }
        }
        while (refused == 0) {
            std::this_thread::yield();
        }
        commits = true;
        const std::unique_lock alone(stand_still);
        commits = false;
        if (round % 3 == 2) {
            heap.transact([&] { heap.root(0) = heap.allocate(100, std::nothrow); });
        } else if (round % 3 == 1) {
            heap.sync(heap.commit_later());
        } else {
            heap.commit();
        }
    }
    ends = true;
    for (std::thread& each : workers) {
        each.join();
    }
    EXPECT_GT(refused, 0U);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

/// Was: the files that are read for the bound are cancellation points, and the thread ended within a call that may not
/// throw, with a lock held.
TEST_F(manager_test, a_thread_that_is_cancelled_while_it_allocates_ends_behind_the_call) {
    const base::process_end end = base::run_in_child([&] {
        for (const durability kind : {durability::commit, durability::collect}) {
            open_options options = bounded_options();
            options.durability = kind;
            options.accept_process_crash_only = true;
            manager heap(create_only, path(kind == durability::commit ? "commit" : "collect"), options);
            std::atomic<int> given{0};
            std::thread worker([&] {
                ::pthread_cancel(::pthread_self());
                for (int i = 0; i < 64; ++i) {
                    void* const block = heap.allocate(100'000, std::nothrow);
                    given += block == nullptr ? 0 : 1;
                    heap.deallocate(heap.allocate(mebibyte, std::nothrow));
                    heap.deallocate(heap.allocate(48, std::nothrow));
                }
                ::pthread_testcancel();
            });
            worker.join();
            if (given < 32 || !heap.check(false).empty()) {
                return false;
            }
        }
        return true;
    });
    EXPECT_TRUE(end.succeeded()) << end.text();
}

using base::has_memory_of_others;

/// A control group of the machine, whose processes may have so much memory.
class memory_group {
public:
    explicit memory_group(std::uint64_t bytes) {
        const std::string name = "/holdfast-test." + std::to_string(::getpid());
        const bool is_unified = ::access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
        path_ = (is_unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory") + name;
        std::error_code failed;
        if (std::filesystem::create_directory(path_, failed)) {
            made_ = write(is_unified ? "memory.max" : "memory.limit_in_bytes", bytes);
        }
    }
    memory_group(const memory_group&) = delete;
    memory_group& operator=(const memory_group&) = delete;
    ~memory_group() { ::rmdir(path_.c_str()); }

    [[nodiscard]] bool is_there() const noexcept { return made_; }
    [[nodiscard]] bool enter() const { return write("cgroup.procs", static_cast<std::uint64_t>(::getpid())); }

private:
    [[nodiscard]] bool write(const char* file, std::uint64_t number) const {
        std::ofstream to(path_ + "/" + file);
        to << number << std::flush;
        return to.good();
    }

    std::string path_;
    bool made_ = false;
};

/// Scattered insertions, and no commit but after an error. False where an error does not say what to do.
bool insert_until_refused(const std::string& path, int times) {
    manager heap(create_only, path);
    using numbers = vector<int>;
    using table = unordered_map<std::uint64_t, numbers>;
    table& all = *heap.construct<table>("all")(heap.get_allocator<>());
    std::mt19937_64 random(7);
    for (int i = 0; times > 0; ++i) {
        try {
            all.try_emplace(random() % 10'000'000, heap.get_allocator<int>()).first->second.push_back(i);
        } catch (const bad_alloc& refused) {
            if (std::string(refused.what()).find("maximum_uncommitted") == std::string::npos) {
                std::fprintf(stderr, "%s\n", refused.what());
                return false;
            }
            heap.commit();
            --times;
        }
    }
    return true;
}

using segment::place;
using segment::test_directory;
class memory_group_test : public testing::TestWithParam<place> {};

TEST_P(memory_group_test, gets_an_error_before_the_kernel_ends_the_process) {
    constexpr std::uint64_t memory = 96 * mebibyte;
    const memory_group group(memory);
    if (has_memory_of_others) {
        GTEST_SKIP() << "the memory of the emulator or sanitizer counts, too";
    }
    if (!group.is_there()) {
        GTEST_SKIP() << "NOT TESTED HERE: no control group of memory can be made";
    }
    const test_directory on(GetParam());
    const base::process_end end =
        base::run_in_child([&] { return group.enter() && insert_until_refused(on.path("heap"), 2); });
    EXPECT_TRUE(end.succeeded()) << end.text();
}

INSTANTIATE_TEST_SUITE_P(places, memory_group_test, testing::Values(place::disk, place::memory));

}  // namespace
}  // namespace holdfast
