// Locks that may lie in a segment, as Boost.Interprocess's, for the threads of its one writing process. A lock that was
// held when the process died is free in the next run.
//
// lock() changes a lock in a segment, so the next flush() writes its page.
#pragma once

#include <atomic>
#include <cstdint>

#include <boost/interprocess/sync/lock_options.hpp>
#include <boost/interprocess/sync/scoped_lock.hpp>
#include <boost/interprocess/sync/sharable_lock.hpp>
#include <boost/interprocess/sync/upgradable_lock.hpp>
#include <holdfast/compat/interprocess/errors.hpp>
#include <holdfast/compat/interprocess/run_word.hpp>

namespace holdfast::compat::interprocess {

using boost::interprocess::accept_ownership;
using boost::interprocess::defer_lock;
using boost::interprocess::scoped_lock;
using boost::interprocess::sharable_lock;
using boost::interprocess::try_to_lock;
using boost::interprocess::upgradable_lock;

/// One writer, or many readers, of which one at a time may become the writer. Nobody who waits holds back the others.
class interprocess_upgradable_mutex {
    static constexpr std::uint64_t writer = 1;
    static constexpr std::uint64_t upgrader = 2;
    static constexpr std::uint64_t reader = 4;

public:
    interprocess_upgradable_mutex() noexcept = default;
    interprocess_upgradable_mutex(const interprocess_upgradable_mutex&) = delete;
    interprocess_upgradable_mutex& operator=(const interprocess_upgradable_mutex&) = delete;

    void lock() { word_.change(take); }
    bool try_lock() { return word_.try_change(take); }
    template <class TimePoint>
    bool timed_lock(const TimePoint& time) {
        return detail::attempt_until(time, [this] { return try_lock(); });
    }
    void unlock() {
        give([](std::uint64_t& state) { return state &= ~writer, true; });
    }

    void lock_sharable() { word_.change(take_shared); }
    bool try_lock_sharable() { return word_.try_change(take_shared); }
    template <class TimePoint>
    bool timed_lock_sharable(const TimePoint& time) {
        return detail::attempt_until(time, [this] { return try_lock_sharable(); });
    }
    void unlock_sharable() {
        give([](std::uint64_t& state) { return state -= reader, true; });
    }

    void lock_upgradable() { word_.change(take_upgradable); }
    bool try_lock_upgradable() { return word_.try_change(take_upgradable); }
    template <class TimePoint>
    bool timed_lock_upgradable(const TimePoint& time) {
        return detail::attempt_until(time, [this] { return try_lock_upgradable(); });
    }
    void unlock_upgradable() {
        give([](std::uint64_t& state) { return state &= ~upgrader, true; });
    }

    void unlock_and_lock_upgradable() {
        give([](std::uint64_t& state) { return state = upgrader, true; });
    }
    void unlock_and_lock_sharable() {
        give([](std::uint64_t& state) { return state = reader, true; });
    }
    void unlock_upgradable_and_lock_sharable() {
        give([](std::uint64_t& state) { return state = (state & ~upgrader) + reader, true; });
    }
    void unlock_upgradable_and_lock() { word_.change(upgrade); }
    bool try_unlock_upgradable_and_lock() { return word_.try_change(upgrade); }
    template <class TimePoint>
    bool timed_unlock_upgradable_and_lock(const TimePoint& time) {
        return detail::attempt_until(time, [this] { return try_unlock_upgradable_and_lock(); });
    }
    bool try_unlock_sharable_and_lock() {
        return word_.try_change([](std::uint64_t& state) { return state == reader && (state = writer, true); });
    }
    bool try_unlock_sharable_and_lock_upgradable() {
        return word_.try_change([](std::uint64_t& state) {
            return (state & upgrader) == 0 && (state = (state - reader) | upgrader, true);
        });
    }

private:
    static bool take(std::uint64_t& state) noexcept { return state == 0 && (state = writer, true); }
    static bool take_shared(std::uint64_t& state) noexcept { return (state & writer) == 0 && (state += reader, true); }
    static bool take_upgradable(std::uint64_t& state) noexcept {
        return (state & (writer | upgrader)) == 0 && (state |= upgrader, true);
    }
    static bool upgrade(std::uint64_t& state) noexcept { return state == upgrader && (state = writer, true); }
    template <class Change>
    void give(Change&& change) noexcept {
        static_cast<void>(word_.try_change(change));
        word_.notify_all();
    }

    detail::run_word word_;
};

class interprocess_sharable_mutex : private interprocess_upgradable_mutex {
public:
    using interprocess_upgradable_mutex::lock;
    using interprocess_upgradable_mutex::lock_sharable;
    using interprocess_upgradable_mutex::timed_lock;
    using interprocess_upgradable_mutex::timed_lock_sharable;
    using interprocess_upgradable_mutex::try_lock;
    using interprocess_upgradable_mutex::try_lock_sharable;
    using interprocess_upgradable_mutex::unlock;
    using interprocess_upgradable_mutex::unlock_sharable;
};

class interprocess_mutex : private interprocess_upgradable_mutex {
public:
    using interprocess_upgradable_mutex::lock;
    using interprocess_upgradable_mutex::timed_lock;
    using interprocess_upgradable_mutex::try_lock;
    using interprocess_upgradable_mutex::unlock;
};

class interprocess_recursive_mutex {
public:
    interprocess_recursive_mutex() noexcept = default;
    interprocess_recursive_mutex(const interprocess_recursive_mutex&) = delete;
    interprocess_recursive_mutex& operator=(const interprocess_recursive_mutex&) = delete;

    void lock() {
        if (!is_mine()) {
            mutex_.lock();
            owner_.store(me(), std::memory_order_relaxed);
            depth_ = 0;
        }
        ++depth_;
    }
    bool try_lock() {
        if (!is_mine()) {
            if (!mutex_.try_lock()) {
                return false;
            }
            owner_.store(me(), std::memory_order_relaxed);
            depth_ = 0;
        }
        ++depth_;
        return true;
    }
    template <class TimePoint>
    bool timed_lock(const TimePoint& time) {
        return detail::attempt_until(time, [this] { return try_lock(); });
    }
    void unlock() {
        if (--depth_ == 0) {
            owner_.store(0, std::memory_order_relaxed);
            mutex_.unlock();
        }
    }

private:
    static std::uint64_t me() noexcept {
        static thread_local const char place = 0;
        return detail::this_run() * 0x9e3779b97f4a7c15U + reinterpret_cast<std::uintptr_t>(&place);
    }
    bool is_mine() const noexcept { return owner_.load(std::memory_order_relaxed) == me(); }

    interprocess_mutex mutex_;
    std::atomic<std::uint64_t> owner_{0};
    std::uint64_t depth_ = 0;
};

/// For any lock with lock() and unlock(). A wait may end without a notification.
class interprocess_condition_any {
public:
    interprocess_condition_any() noexcept = default;
    interprocess_condition_any(const interprocess_condition_any&) = delete;
    interprocess_condition_any& operator=(const interprocess_condition_any&) = delete;

    void notify_one() noexcept {
        turn_.fetch_add(1, std::memory_order_release);
        turn_.notify_one();
    }
    void notify_all() noexcept {
        turn_.fetch_add(1, std::memory_order_release);
        turn_.notify_all();
    }
    template <class Lock>
    void wait(Lock& lock) {
        const std::uint32_t turn = turn_.load(std::memory_order_acquire);
        lock.unlock();
        turn_.wait(turn, std::memory_order_acquire);
        lock.lock();
    }
    template <class Lock, class Predicate>
    void wait(Lock& lock, Predicate predicate) {
        while (!predicate()) {
            wait(lock);
        }
    }
    /// False where the time came first.
    template <class Lock, class TimePoint>
    bool timed_wait(Lock& lock, const TimePoint& time) {
        const std::uint32_t turn = turn_.load(std::memory_order_acquire);
        lock.unlock();
        const bool notified =
            detail::attempt_until(time, [&] { return turn_.load(std::memory_order_acquire) != turn; });
        lock.lock();
        return notified;
    }
    template <class Lock, class TimePoint, class Predicate>
    bool timed_wait(Lock& lock, const TimePoint& time, Predicate predicate) {
        while (!predicate()) {
            if (!timed_wait(lock, time)) {
                return predicate();
            }
        }
        return true;
    }

private:
    std::atomic<std::uint32_t> turn_{0};
};
using interprocess_condition = interprocess_condition_any;

/// In the next run the count is as the last flush() left it.
class interprocess_semaphore {
public:
    explicit interprocess_semaphore(unsigned count) noexcept : count_(count) {}
    interprocess_semaphore(const interprocess_semaphore&) = delete;
    interprocess_semaphore& operator=(const interprocess_semaphore&) = delete;

    void post() noexcept {
        count_.fetch_add(1, std::memory_order_release);
        count_.notify_one();
    }
    void wait() noexcept {
        while (!try_wait()) {
            count_.wait(0, std::memory_order_acquire);
        }
    }
    bool try_wait() noexcept {
        std::uint32_t count = count_.load(std::memory_order_relaxed);
        while (count != 0) {
            if (count_.compare_exchange_weak(count, count - 1, std::memory_order_acq_rel)) {
                return true;
            }
        }
        return false;
    }
    template <class TimePoint>
    bool timed_wait(const TimePoint& time) {
        return detail::attempt_until(time, [this] { return try_wait(); });
    }
    unsigned get_count() const noexcept { return count_.load(std::memory_order_acquire); }

private:
    std::atomic<std::uint32_t> count_;
};

}  // namespace holdfast::compat::interprocess
