// Commits that take the present state and become durable later, while the program goes on (manager::commit_later()).
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/transaction.hpp>

#include "api/manager_test_configurations.hpp"
#include "base/process_test_support.hpp"

namespace holdfast {
namespace {

constexpr std::size_t words = std::size_t{1} << 18U;
constexpr std::size_t words_a_page = 512;

class manager_commit_later_test : public manager_test {
protected:
    void SetUp() override {
        heap_.emplace(create());
        content_ = static_cast<std::uint64_t*>(heap_->allocate(words * sizeof(std::uint64_t)));
        heap_->root(0) = content_;
        std::memset(content_, 0, words * sizeof(std::uint64_t));
        heap_->commit();
        static_cast<void>(heap_->commit_later());  // asks for memory to be watched
        content_[0] = 1;
        heap_->commit();
        if (heap_->statistics().watched_bytes == 0) {
            GTEST_SKIP() << "NOT TESTED HERE: this kernel does not note stores, and commit_later() is commit()";
        }
    }
    /// Word `at` in what a crash right now would leave.
    [[nodiscard]] std::uint64_t after_a_crash(std::size_t at) {
        crash();
        return left_->at(at);
    }
    struct image {
        explicit image(const std::string& path) : heap(open_read_only, path) {}
        [[nodiscard]] const std::uint64_t* words(std::size_t root) const {
            return static_cast<const std::uint64_t*>(heap.root(root).get());
        }
        [[nodiscard]] std::uint64_t at(std::size_t word) const { return words(0)[word]; }
        manager heap;
    };
    void crash() {
        left_.reset();
        const std::string copy = path("copy");
        std::filesystem::remove_all(copy);
        std::filesystem::copy(path(), copy, std::filesystem::copy_options::recursive);
        left_.emplace(copy);
        EXPECT_THAT(left_->heap.check(true), testing::IsEmpty());
    }
    [[nodiscard]] ticket capture() {
        const ticket taken = heap_->commit_later();
        EXPECT_NE(taken, ticket()) << "it was committed at once";
        return taken;
    }

    std::optional<manager> heap_;
    std::uint64_t* content_ = nullptr;
    std::optional<image> left_;
};

TEST_F(manager_commit_later_test, has_the_moment_of_the_call) {
    for (std::uint64_t round = 2; round < 12; ++round) {
        for (std::size_t at = 0; at < words; at += words_a_page * round) {
            content_[at] = round;
        }
        const ticket taken = capture();
        content_[0] = 1000 + round;
        content_[words_a_page * round] = 1000 + round;
        EXPECT_EQ(after_a_crash(0), round == 2 ? 1 : round - 1) << "nothing waits for it yet";
        heap_->sync(taken);
        EXPECT_EQ(after_a_crash(0), round);
        EXPECT_EQ(left_->at(words_a_page * round), round);
        EXPECT_EQ(content_[0], 1000 + round);
        content_[0] = round;
    }
    heap_->sync(ticket());
    content_[0] = 77;
    heap_->commit();
    EXPECT_EQ(after_a_crash(0), 77U);
    EXPECT_EQ(left_->at(words_a_page * 11), 1011U) << "stored behind the capture: part of the next commit";
}

TEST_F(manager_commit_later_test, whatever_commits_next_carries_it_out) {
    content_[0] = 5;
    static_cast<void>(capture());
    content_[1] = 6;
    heap_->read([&] { EXPECT_EQ(after_a_crash(0), 5U) << "who reads sees what is durable"; });
    EXPECT_EQ(left_->at(1), 0U);

    content_[0] = 7;
    const ticket second = capture();
    heap_->transact([&] {
        EXPECT_EQ(after_a_crash(0), 7U);
        content_[2] = 8;
    });
    EXPECT_EQ(after_a_crash(2), 8U);
    EXPECT_EQ(left_->at(1), 6U) << "stores outside of transactions are part of the next record";
    heap_->sync(second);

    content_[0] = 9;
    const ticket third = capture();
    content_[0] = 10;
    const ticket fourth = capture();
    EXPECT_EQ(after_a_crash(0), 9U);
    heap_->sync(third);
    EXPECT_EQ(after_a_crash(0), 9U);
    heap_->sync(fourth);
    EXPECT_EQ(after_a_crash(0), 10U);

    content_[0] = 11;
    static_cast<void>(capture());
    heap_->close();
    EXPECT_EQ(manager(open_read_only, path()).check(true).size(), 0U);
    EXPECT_EQ(after_a_crash(0), 11U);
}

TEST_F(manager_commit_later_test, is_forgotten_with_the_heap) {
    content_[0] = 5;
    static_cast<void>(capture());
    heap_->close(false);
    EXPECT_EQ(after_a_crash(0), 1U);
}

TEST_F(manager_commit_later_test, an_abort_goes_back_to_it) {
    content_[0] = 5;
    content_[words_a_page] = 5;
    static_cast<void>(capture());
    content_[words_a_page] = 6;
    EXPECT_THROW(heap_->transact([&] {
        content_[0] = 7;
        content_[words_a_page] = 7;
        throw std::runtime_error("given up");
    }),
                 std::runtime_error);
    EXPECT_EQ(content_[0], 5U);
    EXPECT_EQ(content_[words_a_page], 6U);
    heap_->commit();
    EXPECT_EQ(after_a_crash(words_a_page), 6U);
    EXPECT_EQ(left_->at(0), 5U);
}

TEST_F(manager_commit_later_test, takes_tickets_of_transactions_with_it) {
    const ticket waits = heap_->transact_later([&] { content_[0] = 5; });
    const ticket taken = capture();
    heap_->sync(waits);
    EXPECT_EQ(after_a_crash(0), 5U);
    heap_->sync(taken);
    EXPECT_THROW(heap_->transact([&] { static_cast<void>(heap_->commit_later()); }), error);
}

TEST_F(manager_commit_later_test, a_failure_leaves_it_to_the_next_commit) {
    content_[0] = 5;
    content_[words_a_page] = 5;
    const ticket taken = capture();
    content_[0] = 6;
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit none{4096, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
    EXPECT_THROW(heap_->sync(taken), error);
    EXPECT_THROW(heap_->sync(taken), error) << "and the whole state, which it commits then, cannot be written either";
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(after_a_crash(0), 1U);
    EXPECT_EQ(left_->at(words_a_page), 0U);
    heap_->sync(taken);
    EXPECT_EQ(after_a_crash(0), 6U) << "the present state";
    EXPECT_EQ(left_->at(words_a_page), 5U);
    EXPECT_THAT(heap_->check(true), testing::IsEmpty());
}

TEST_F(manager_commit_later_test, is_not_written_by_a_child) {
    content_[0] = 5;
    const ticket taken = capture();
    const base::process_end end = base::run_in_child([&] {
        try {
            heap_->sync(taken);
        } catch (const error& refused) {
            ::_exit(refused.reason() == errc::wrong_process ? 0 : 2);
        }
        ::_exit(1);
    });
    EXPECT_TRUE(end.succeeded());
    EXPECT_EQ(after_a_crash(0), 1U);
    heap_->sync(taken);
    EXPECT_EQ(after_a_crash(0), 5U);
}

TEST_F(manager_commit_later_test, is_a_commit_where_the_heap_has_grown) {
    content_[0] = 5;
    auto* const more = static_cast<std::uint64_t*>(heap_->allocate(std::size_t{64} << 20U));
    more[0] = 6;
    heap_->root(1) = more;
    EXPECT_EQ(heap_->commit_later(), ticket());
    EXPECT_EQ(after_a_crash(0), 5U);
    EXPECT_EQ(*left_->words(1), 6U);
}

/// Threads that stand still for the calls alone, and allocate, store and free while the state is written.
TEST_F(manager_commit_later_test, threads_go_on_while_it_becomes_durable) {
    constexpr unsigned threads = 3;
    std::shared_mutex stand_still;
    std::atomic<bool> ends{false};
    std::vector<std::uint64_t> counts(threads);
    std::vector<std::thread> workers;
    for (unsigned id = 0; id < threads; ++id) {
        content_[id] = 0;  // as `counts`, also where a thread begins late
        workers.emplace_back([&, id] {
            std::vector<void*> blocks;
            std::uint64_t step = id;
            while (!ends) {
                const std::shared_lock working(stand_still);
                ++counts[id];
                for (std::size_t i = 0; i < 20; ++i) {  // in pages of its own, and of others
                    step = step * 6364136223846793005U + 1442695040888963407U;
                    content_[(step >> 20U) % (words / threads) * threads + id] = counts[id];
                }
                content_[id] = counts[id];
                blocks.push_back(heap_->allocate(16 + step % 3000));
                std::memset(blocks.back(), 1, 16);
                if (blocks.size() > 50) {
                    heap_->deallocate(blocks[step % 50]);
                    blocks[step % 50] = blocks.back();
                    blocks.pop_back();
                }
            }
            for (void* const each : blocks) {
                heap_->deallocate(each);
            }
        });
    }
    std::uint64_t captured = 0;
    for (int round = 0; round < 16; ++round) {
        std::vector<std::uint64_t> then;
        std::vector<std::uint64_t> all;
        ticket taken;
        {
            const std::unique_lock alone(stand_still);
            then = counts;
            all.assign(content_, content_ + words);
            taken = heap_->commit_later();
            captured += taken == ticket() ? 0U : 1U;
        }
        heap_->sync(taken);
        if (round % 4 == 3) {
            crash();
            for (unsigned id = 0; id < threads; ++id) {
                EXPECT_EQ(left_->at(id), then[id]);
            }
            EXPECT_EQ(std::memcmp(left_->words(0), all.data(), words * sizeof(std::uint64_t)), 0);
        }
    }
    EXPECT_GT(captured, 8U);
    ends = true;
    for (std::thread& each : workers) {
        each.join();
    }
    const std::vector<std::uint64_t> last(content_, content_ + words);
    heap_->commit();
    EXPECT_THAT(heap_->check(true), testing::IsEmpty());
    crash();
    EXPECT_EQ(std::memcmp(left_->words(0), last.data(), words * sizeof(std::uint64_t)), 0);
}

/// A long record begins a log of longer files, for which a heap that grows meanwhile reserves space.
TEST_F(manager_commit_later_test, the_heap_grows_while_a_long_record_is_written) {
    constexpr std::size_t bytes = std::size_t{40} << 20U;
    auto* const large = static_cast<unsigned char*>(heap_->allocate(bytes));
    heap_->root(1) = large;
    std::memset(large, 1, bytes);
    heap_->commit();
    static_cast<void>(heap_->commit_later());  // asks for it to be watched
    large[0] = 2;
    heap_->commit();
    std::memset(large, 2, bytes);
    const ticket taken = capture();
    std::atomic<bool> ends{false};
    std::vector<std::thread> workers;
    for (int id = 0; id < 2; ++id) {
        workers.emplace_back([&] {
            for (int i = 0; i < 200 && !ends; ++i) {
                std::memset(heap_->allocate(std::size_t{1} << 20U), 1, 100);
            }
        });
    }
    heap_->sync(taken);
    ends = true;
    for (std::thread& each : workers) {
        each.join();
    }
    crash();
    const auto* const found = reinterpret_cast<const unsigned char*>(left_->words(1));
    EXPECT_TRUE(found[0] == 2 && std::memcmp(found, found + 1, bytes - 1) == 0);
    heap_->commit();
    EXPECT_THAT(heap_->check(true), testing::IsEmpty());
}

}  // namespace
}  // namespace holdfast
