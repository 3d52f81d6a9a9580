// The locks and turns that processes share in a store, and readers that enter beside a writer. Each thread is a process
// of its own, and one may die at any step.
#include <array>
#include <atomic>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "interleavings/explorer.hpp"
#include "persist/mutant.hpp"
#include "store/shared_state.hpp"

namespace holdfast::interleavings {
namespace {

using store_engine::lock_word;
using store_engine::shared_lock;
using store_engine::shared_mutex;
using store_engine::status;
using store_engine::sync_turn;

/// Processes that write and make durable, as a store does (store/committer.cpp), without pages.
class turns_subject : public subject {
public:
    explicit turns_subject(std::size_t threads) : threads_(threads) {
        for (std::size_t i = 0; i < threads; ++i) {
            process& each = processes_.at(i);
            each.number_of_process(static_cast<std::uint32_t>(i) + 1);
            each.of = this;
            each.writer.lie_at(writer_, each);
            each.syncer.lie_at(syncer_, each);
        }
    }
    [[nodiscard]] std::size_t threads() const override { return threads_; }
    void died(std::size_t thread) override { dead_.store(static_cast<std::uint32_t>(thread) + 1); }
    void run(std::size_t thread) override {
        process& own = processes_.at(thread);
        const bool is_alive = dead_.load() != thread + 1;
        std::uint64_t mine = 0;
        {
            shared_lock lock;
            bool died = false;
            if (lock.lock(own.writer, died) != status::ok) {
                wrong_ = "a lock was refused";
                return;
            }
            if (is_inside_.exchange(thread + 1) != 0 && !died && is_alive) {
                wrong_ = "two had the lock";
            }
            mine = written_.load() + 1;
            written_.store(mine);
            is_inside_.store(0);
        }
        sync_turn turn(own.syncer, turns_);
        const auto is_done = [&] { return synced_.load() >= mine; };
        if (turn.take_unless(is_done, [] { return status::ok; }) != status::ok) {
            wrong_ = "a turn was refused";
        } else if (!is_done()) {
            const std::uint64_t all = written_.load();
            synced_.store(all);
            ++syncs_;
        }
        turn.end();
        if (!is_done()) {
            wrong_ = "a commit returned and was not durable";
        }
    }
    [[nodiscard]] std::string problem() override { return syncs_ > threads_ ? "more syncs than commits" : wrong_; }

private:
    struct process final : store_engine::lock_party {
        void number_of_process(std::uint32_t number) { number_ = number; }
        [[nodiscard]] bool is_alive(std::uint32_t number) const noexcept override { return of->dead_.load() != number; }
        [[nodiscard]] bool is_held_here(const lock_word& /*word*/, std::uint32_t /*number*/) const noexcept override {
            return false;
        }
        const turns_subject* of = nullptr;
        shared_mutex writer;
        shared_mutex syncer;
    };

    std::size_t threads_;
    lock_word writer_{};
    lock_word syncer_{};
    base::atomic<std::uint32_t> turns_{0};
    base::atomic<std::uint64_t> written_{0};
    base::atomic<std::uint64_t> synced_{0};
    std::atomic<std::uint32_t> dead_{0};
    std::atomic<std::size_t> is_inside_{0};
    std::atomic<std::uint64_t> syncs_{0};
    std::array<process, explorer::most_threads> processes_;
    std::string wrong_;
};

auto turns_of(std::size_t threads) {
    return [=]() -> std::unique_ptr<subject> { return std::make_unique<turns_subject>(threads); };
}

TEST(interleavings_of_turns, hold_nobody_up_and_make_each_commit_durable) {
    expect_right(turns_of(2), {.preemptions = 2});
    expect_right(turns_of(3), {.preemptions = 1});
}

TEST(interleavings_of_turns, hold_nobody_up_where_one_dies_at_any_step) {
    expect_right(turns_of(2), {.preemptions = 1, .death = 1});
    expect_right(turns_of(3), {.preemptions = 0, .death = 1});
}

TEST(interleavings_of_turns, find_that_waiting_processes_are_woken_before_the_turn_is_given_back) {
    const persist::mutant_selection mutant("turn.store.wake_early");
    EXPECT_NE(find_fault(turns_of(2), {}), "");
}

TEST(interleavings_of_turns, find_that_a_holder_wakes_nobody) {
    const persist::mutant_selection mutant("turn.store.wake_nobody");
    EXPECT_NE(find_fault(turns_of(2), {}), "");
}

/// A reader that enters while a writer makes versions durable, and takes pages that no version has that somebody reads.
class readers_subject : public subject {
public:
    readers_subject() {
        if (state_.open_private(true) != status::ok) {
            wrong_ = "no memory";
            return;
        }
        state_.initialise({}, 0, 8);
        state_.publish();
        for (std::uint64_t version = 1; version <= 2; ++version) {
            state_.set_root({.transaction = version, .main = {}, .next_page = 10 + version});
        }
        state_.header().durable.store(1);
        if (state_.take_slot(slot_) != status::ok) {
            wrong_ = "no slot";
        }
    }
    [[nodiscard]] std::size_t threads() const override { return 2; }
    void run(std::size_t thread) override {
        if (thread == 0) {
            const store_engine::root seen = state_.enter(*slot_);
            if (seen.next_page != 10 + seen.transaction) {
                wrong_ = "a reader has parts of two versions";
            }
            reads_.store(seen.transaction);
            return;
        }
        // As committer::release_pages(): durable first, then who reads.
        state_.set_root({.transaction = 3, .main = {}, .next_page = 13});
        state_.header().durable.store(3);
        const std::uint64_t durable = state_.header().durable.load(std::memory_order_acquire);
        std::vector<std::uint64_t> seen;
        state_.collect_snapshots(seen);
        seen.push_back(durable);
        kept_ = seen;
    }
    /// The reader's version is one that the writer keeps, for it looked after the version was announced, or the reader
    /// looked again.
    [[nodiscard]] std::string problem() override {
        for (const std::uint64_t each : kept_) {
            if (each == reads_.load()) {
                return wrong_;
            }
        }
        return "the pages of the version that a reader entered are used again";
    }

private:
    store_engine::shared_state state_;
    store_engine::reader_slot* slot_ = nullptr;
    std::atomic<std::uint64_t> reads_{0};
    std::vector<std::uint64_t> kept_;
    std::string wrong_;
};

std::unique_ptr<subject> reader_beside_a_writer() { return std::make_unique<readers_subject>(); }

TEST(interleavings_of_readers, enter_a_version_that_the_writer_keeps) {
    expect_right(reader_beside_a_writer, {.preemptions = 2});
}

TEST(interleavings_of_readers, find_that_a_reader_does_not_look_again) {
    const persist::mutant_selection mutant("turn.store.enter_once");
    EXPECT_NE(find_fault(reader_beside_a_writer, {}), "");
}

}  // namespace
}  // namespace holdfast::interleavings
