// Transactions of the domain `disk` that wait for a sync: what one shows the others of its thread, and what a sync can
// carry out.
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/transaction.hpp>

#include "base/process_test_support.hpp"
#include "manager_test_support.hpp"

namespace holdfast {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct part {
    std::uint32_t first = 0;
    std::uint32_t second = 0;
    std::uint32_t third = 0;  // in the middle of a word
};
struct whole {
    part begin;
    std::uint32_t end = 0;  // in the same word
};

class transaction_later_test : public testing::Test {
protected:
    static open_options options() {
        open_options wanted = small_options();
        wanted.durability = durability::atomic;
        wanted.domain = open_options::domain_choice::disk;
        return wanted;
    }
    /// Blocks behind no pointer.
    [[nodiscard]] std::vector<void*> allocate(std::size_t count) {
        std::vector<void*> all(count);
        heap_.transact([&](transaction& tx) {
            for (void*& each : all) {
                each = tx.allocate(32);
            }
        });
        return all;
    }
    static void free_all(transaction& tx, const std::vector<void*>& blocks) {
        for (void* const each : blocks) {
            tx.free(each);
        }
    }

    segment::test_directory directory_;
    manager heap_{create_only, directory_.path("heap"), options()};
};

/// Was: the bytes behind the object were taken from the heap, where a waiting change is not yet.
TEST_F(transaction_later_test, an_object_took_back_a_change_of_the_bytes_behind_it) {
    auto& all = *heap_.construct<whole>("all")();
    static_cast<void>(heap_.transact_later([&](transaction& tx) { tx.open(all).end = 7; }));
    static_cast<void>(heap_.transact_later([&](transaction& tx) { tx.open(all.begin).third = 3; }));
    static_cast<void>(heap_.transact_later([&](transaction& tx) {
        const whole& seen = tx.open(all);
        EXPECT_EQ(seen.end, 7U);
        EXPECT_EQ(seen.begin.third, 3U);
    }));
    heap_.sync();
    EXPECT_EQ(all.end, 7U);
    EXPECT_EQ(all.begin.third, 3U);
}

/// Was: a transaction that began before the first commit_later() of its thread did not see it, and took it back.
TEST_F(transaction_later_test, an_open_transaction_did_not_see_the_first_one_that_waits) {
    auto& word = *heap_.construct<std::uint64_t>("word")(1U);
    auto& all = *heap_.construct<whole>("all")();
    transaction outer(heap_);
    static_cast<void>(heap_.transact_later([&](transaction& tx) {
        tx.store(word, 2U);
        tx.open(all).end = 2;
    }));
    EXPECT_EQ(outer.load(word), 2U);
    ++outer.open(all).end;
    outer.store(word, outer.load(word) + 1);
    outer.commit();
    EXPECT_EQ(word, 3U);
    EXPECT_EQ(all.end, 3U);
}

/// Was: both were accepted, and no sync could carry them out. Every later commit of the thread failed, and so did
/// close().
TEST_F(transaction_later_test, two_that_are_too_large_together_waited_for_ever) {
    const std::vector<void*> few = allocate(1000);
    const std::vector<void*> many = allocate(4000);
    const std::uint64_t before = heap_.statistics().allocated_blocks;
    static_cast<void>(heap_.transact_later([&](transaction& tx) { free_all(tx, few); }));
    static_cast<void>(heap_.transact_later([&](transaction& tx) { free_all(tx, many); }));
    heap_.sync();
    EXPECT_EQ(heap_.statistics().allocated_blocks, before - few.size() - many.size());
    EXPECT_THAT(heap_.check(true), IsEmpty());
}

/// As the one before, for one transaction, which commit() refuses.
TEST_F(transaction_later_test, one_that_is_too_large_waited_for_ever) {
    std::vector<void*> many = allocate(3000);
    const std::vector<void*> more = allocate(3000);
    many.insert(many.end(), more.begin(), more.end());
    auto& word = *heap_.construct<std::uint64_t>("word")();
    const std::uint64_t before = heap_.statistics().allocated_blocks;
    static_cast<void>(heap_.transact_later([&](transaction& tx) { tx.store(word, 1U); }));
    try {
        static_cast<void>(heap_.transact_later([&](transaction& tx) { free_all(tx, many); }));
        ADD_FAILURE() << "accepted";
    } catch (const error& refused) {
        EXPECT_EQ(refused.reason(), errc::limit);
        EXPECT_THAT(refused.what(), HasSubstr("0 blocks made and 6000 freed"));
    }
    heap_.sync();
    EXPECT_EQ(word, 1U);
    EXPECT_EQ(heap_.statistics().allocated_blocks, before);
}

/// Was: it waited for the lock of a thread that it does not have, or read memory that it does not have.
TEST_F(transaction_later_test, a_child_of_fork_waited_for_what_another_thread_syncs) {
    auto& root = *heap_.construct<ptr<part>>("root")();
    const auto make_part = [&] {
        return heap_.transact_later([&](transaction& tx) { tx.store(root, tx.make<part>()); });
    };
    const ticket waits = make_part();
    std::atomic<bool> ends = false;
    const std::jthread other([&] {
        while (!ends) {
            heap_.sync(make_part());
        }
    });
    for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(holdfast::base::succeeds_in_child([&] {
            constexpr unsigned seconds = 10;
            ::alarm(seconds);
            bool refused = reason_of([&] { heap_.sync(waits); }) == errc::wrong_process;
            refused &= reason_of([&] { heap_.sync(); }) == errc::wrong_process;
            refused &= reason_of([&] { heap_.commit(); }) == errc::wrong_process;
            refused &= reason_of([&] { heap_.close(); }) == errc::wrong_process;
            const manager ends_here(std::move(heap_));
            return refused;
        }));
    }
    ends = true;
}

}  // namespace
}  // namespace holdfast
