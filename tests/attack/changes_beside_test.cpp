// Commits of durability `commit` beside threads whose calls move what was committed before, and beside transactions
// that are open.
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <future>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/transaction.hpp>

#include "attack/attacked.hpp"
#include "support/scratch.hpp"

namespace holdfast::attack {
namespace {

namespace fs = std::filesystem;

/// Several pages, so that a commit has some of it earlier than the rest.
struct ledger {
    std::array<std::uint64_t, 2000> numbers{};
    void fill() { std::iota(numbers.begin(), numbers.end(), 4711U); }
    [[nodiscard]] bool is_whole() const {
        ledger expected;
        expected.fill();
        return numbers == expected.numbers;
    }
};

class changes_beside : public testing::Test {
protected:
    changes_beside() : heap_(create_only, path_, options_for(durability::commit)) {
        for (std::size_t at = 0; at < ledgers; ++at) {
            auto* const made = static_cast<ledger*>(heap_.allocate_to(heap_.root(at), sizeof(ledger)));
            made->fill();
        }
        heap_.commit();
    }
    [[nodiscard]] static bool all_are_whole(const manager& heap) {
        bool whole = true;
        for (std::size_t at = 0; at < ledgers; ++at) {
            const auto* const found = static_cast<const ledger*>(heap.root(at).get());
            whole = whole && found != nullptr && found->is_whole();
        }
        return whole && heap.check(true).empty();
    }
    /// Of what a crash right now would leave.
    [[nodiscard]] bool is_whole_after_a_crash() const {
        const std::string copy = scratch_ / "copy";
        fs::copy(path_, copy, fs::copy_options::recursive);
        const bool whole = all_are_whole(manager(open_read_only, copy, options_for(durability::commit)));
        fs::remove_all(copy);
        return whole;
    }
    /// Commits while a thread calls `move` with the roots by turns.
    template <class Move>
    void commit_beside(Move&& move) {
        std::atomic<std::uint64_t> moved{0};
        {
            const std::jthread other([&](const std::stop_token& stop) {
                for (; !stop.stop_requested(); ++moved) {
                    move(heap_.root(moved.load() % ledgers));
                }
            });
            for (int nth = 0; nth < 60; ++nth) {
                const std::uint64_t before = moved.load();
                ASSERT_NO_THROW(heap_.commit()) << "commit " << nth;
                while (moved.load() < before + 5) {
                    std::this_thread::yield();
                }
                if (nth % 10 == 9) {
                    EXPECT_TRUE(is_whole_after_a_crash()) << "commit " << nth;
                }
            }
        }
        EXPECT_TRUE(all_are_whole(heap_));
    }

    static constexpr std::size_t ledgers = 8;
    support::scratch_directory scratch_;
    std::string path_ = scratch_ / "heap";
    manager heap_;
};

/// Was: content that a commit had taken back from a new block, and a pointer to it.
TEST_F(changes_beside, transactions_that_move_what_was_committed_keep_it) {
    commit_beside([this](ptr<void>& place) {
        heap_.transact([&](transaction& tx) {
            auto* const from = static_cast<const ledger*>(place.get());
            auto* const to = static_cast<ledger*>(tx.allocate(sizeof(ledger)));
            std::memcpy(to, from, sizeof(ledger));
            tx.store(place, static_cast<void*>(to));
            tx.free(const_cast<ledger*>(from));
        });
    });
}

TEST_F(changes_beside, calls_that_reallocate_what_was_committed_keep_it) {
    std::uint64_t calls = 0;
    commit_beside([&](ptr<void>& place) {
        const bool is_long = calls++ / ledgers % 2 == 0;
        static_cast<void>(heap_.realloc_to(place, sizeof(ledger) * (is_long ? 5 : 1)));
    });
}

/// Was: a commit of the memory that the transaction's thread was about to change.
TEST_F(changes_beside, an_open_transaction_of_another_thread_is_named) {
    std::promise<void> began;
    std::promise<void> ends;
    std::thread other([&] {
        transaction tx(heap_);
        tx.store(heap_.root(20), tx.allocate(100));
        began.set_value();
        ends.get_future().wait();
        tx.commit();
    });
    began.get_future().wait();
    try {
        heap_.commit();
        ADD_FAILURE() << "committed";
    } catch (const error& what) {
        EXPECT_EQ(what.reason(), errc::concurrent_modification);
        EXPECT_THAT(what.found(), testing::HasSubstr("transaction"));
        EXPECT_THAT(what.what(), testing::HasSubstr(path_));
    }
    ends.set_value();
    other.join();
    EXPECT_NO_THROW(heap_.commit());
    EXPECT_NO_THROW(heap_.snapshot(scratch_ / "snapshot"));
    EXPECT_NO_THROW(static_cast<void>(heap_.collect()));
    heap_.close();
}

/// A commit does not wait for its own thread.
TEST_F(changes_beside, a_transaction_of_the_own_thread_goes_on_behind_the_commit) {
    {
        transaction tx(heap_);
        auto* const made = static_cast<ledger*>(tx.allocate(sizeof(ledger)));
        made->fill();
        heap_.commit();
        EXPECT_TRUE(is_whole_after_a_crash());
        EXPECT_TRUE(made->is_whole());
        tx.store(heap_.root(20), static_cast<void*>(made));
        tx.commit();
    }
    heap_.commit();
    heap_.close();
    const manager again(open_read_only, path_, options_for(durability::commit));
    EXPECT_TRUE(static_cast<const ledger*>(again.root(20).get())->is_whole());
}

}  // namespace
}  // namespace holdfast::attack
