// std::atomic, and sleeping and waking by its words. Where mutants are compiled in, a test that explores interleavings
// stops a thread before each operation, and decides who sleeps and who runs (tests/interleavings/).
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include <time.h>

#include "base/mutex.hpp"

namespace holdfast::base {

#if defined(HOLDFAST_MUTANTS) && HOLDFAST_MUTANTS

/// What runs the threads of such a test, one at a time.
class interleaving {
public:
    interleaving() = default;
    interleaving(const interleaving&) = delete;
    interleaving& operator=(const interleaving&) = delete;
    virtual ~interleaving() = default;
    /// Another thread may run before this returns.
    virtual void step() noexcept = 0;
    /// Returns when the address is woken. `has_limit`: or when no other thread can run.
    virtual void fall_asleep(const void* address, bool has_limit) noexcept = 0;
    virtual void wake(const void* address, bool all) noexcept = 0;
};

inline thread_local interleaving* this_interleaving = nullptr;

/// Whether such a test chooses who runs.
[[nodiscard]] inline bool runs_by_choice() noexcept { return this_interleaving != nullptr; }

inline void step_of_interleaving() noexcept {
    if (this_interleaving != nullptr) {
        this_interleaving->step();
    }
}

template <class T>
class atomic : public std::atomic<T> {
    using real = std::atomic<T>;

public:
    using real::real;
    atomic(const atomic&) = delete;
    atomic& operator=(const atomic&) = delete;
    ~atomic() = default;

    [[nodiscard]] T load(std::memory_order order = std::memory_order_seq_cst) const noexcept {
        step_of_interleaving();
        return real::load(order);
    }
    operator T() const noexcept { return load(); }  // NOLINT(google-explicit-constructor): as std::atomic
    void store(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
        step_of_interleaving();
        real::store(value, order);
    }
    T exchange(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
        step_of_interleaving();
        return real::exchange(value, order);
    }
    template <class... Orders>
    bool compare_exchange_strong(T& expected, T value, Orders... orders) noexcept {
        step_of_interleaving();
        return real::compare_exchange_strong(expected, value, orders...);
    }
    template <class... Orders>
    bool compare_exchange_weak(T& expected, T value, Orders... orders) noexcept {
        step_of_interleaving();
        return real::compare_exchange_strong(expected, value, orders...);  // a test repeats what it did
    }
    T fetch_add(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
        step_of_interleaving();
        return real::fetch_add(value, order);
    }
    T fetch_sub(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
        step_of_interleaving();
        return real::fetch_sub(value, order);
    }
    void wait(T old, std::memory_order order = std::memory_order_seq_cst) const noexcept {
        if (this_interleaving != nullptr) {
            if (load(order) == old) {
                this_interleaving->fall_asleep(this, false);
            }
        } else if (!give_others_a_turn()) {
            real::wait(old, order);
        }
    }
    void notify_one() noexcept {
        if (this_interleaving != nullptr) {
            this_interleaving->wake(this, false);
        } else {
            real::notify_one();
        }
    }
    void notify_all() noexcept {
        if (this_interleaving != nullptr) {
            this_interleaving->wake(this, true);
        } else {
            real::notify_all();
        }
    }
};

#else

[[nodiscard]] constexpr bool runs_by_choice() noexcept { return false; }

template <class T>
using atomic = std::atomic<T>;

#endif

/// Sleeps while the word has this value, until it is woken, `longest` has passed, or for no reason. The word may lie in
/// memory that processes share.
inline void sleep_while(const atomic<std::uint32_t>& word, std::uint32_t value, const timespec& longest) noexcept {
#if defined(HOLDFAST_MUTANTS) && HOLDFAST_MUTANTS
    if (this_interleaving != nullptr) {
        if (word.load() == value) {
            this_interleaving->fall_asleep(&word, true);
        }
        return;
    }
#endif
    static_assert(sizeof(word) == sizeof(std::uint32_t));
    ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &longest, nullptr, 0);
}

inline void wake_sleepers(const atomic<std::uint32_t>& word, int most = INT_MAX) noexcept {
#if defined(HOLDFAST_MUTANTS) && HOLDFAST_MUTANTS
    if (this_interleaving != nullptr) {
        this_interleaving->wake(&word, most != 1);
        return;
    }
#endif
    ::syscall(SYS_futex, &word, FUTEX_WAKE, most, nullptr, nullptr, 0);
}

}  // namespace holdfast::base
