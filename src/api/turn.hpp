// Who may change an open heap by a transaction over everything: one thread, or any number that read. Those who wait go
// in the order in which they came, and sleep.
//
// Thread-safe. Threads are told apart by their numbers, so it needs no memory of a thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

namespace holdfast::detail {

class turn {
public:
    turn() = default;
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;
    ~turn() = default;

    /// The thread neither has the turn nor reads.
    void lock();
    void unlock() noexcept;
    /// The thread has not the turn. It may read several times at once. May throw std::bad_alloc.
    void lock_shared();
    void unlock_shared() noexcept;
    [[nodiscard]] bool is_mine() const noexcept {
        return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
    }
    [[nodiscard]] bool is_read_by_this_thread() const;
    /// Somebody waits.
    [[nodiscard]] bool is_wanted() const {
        const std::lock_guard held(mutex_);
        return first_ != nullptr;
    }

private:
    struct waiter {
        explicit waiter(bool is_exclusive) noexcept : exclusive(is_exclusive) {}
        const bool exclusive;
        bool has_begun = false;
        std::thread::id thread = std::this_thread::get_id();
        std::condition_variable may_begin;
        waiter* next = nullptr;
    };
    struct reader {
        std::thread::id thread;
        unsigned times;
    };

    void wait(std::unique_lock<std::mutex>& lock, waiter& mine);
    void let_next_begin() noexcept;

    mutable std::mutex mutex_;
    std::atomic<std::thread::id> owner_{};
    std::vector<reader> readers_;
    /// Of `readers_`. A thread that reads knows of itself; where nobody does, none needs the lock to see that.
    std::atomic<std::size_t> reading_{0};
    std::size_t coming_readers_ = 0;  ///< that have room in `readers_`
    waiter* first_ = nullptr;
    waiter* last_ = nullptr;
};

}  // namespace holdfast::detail
