// Which lock guards what, in a form that clang's -Wthread-safety checks and other compilers pass over.
//
// The mutex of the library is base::mutex, for std::mutex bears no annotations, and it is quicker: members that it
// guards are marked HF_GUARDED_BY(mutex_), functions that need it held HF_REQUIRES(mutex_).
#pragma once

#include <atomic>

#include <time.h>

#if defined(__clang__)
#define HF_THREAD_ANNOTATION(attribute) __attribute__((attribute))
#else
#define HF_THREAD_ANNOTATION(attribute)
#endif

#define HF_CAPABILITY(name) HF_THREAD_ANNOTATION(capability(name))
#define HF_SCOPED_CAPABILITY HF_THREAD_ANNOTATION(scoped_lockable)
#define HF_GUARDED_BY(lock) HF_THREAD_ANNOTATION(guarded_by(lock))
#define HF_REQUIRES(...) HF_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define HF_ACQUIRE(...) HF_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define HF_RELEASE(...) HF_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define HF_TRY_ACQUIRE(...) HF_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define HF_EXCLUDES(...) HF_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
/// For functions whose right to touch the data the analysis cannot see; the comment beside it says what that right is.
#define HF_NO_THREAD_SAFETY_ANALYSIS HF_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace holdfast::base {

#if defined(HOLDFAST_MUTANTS) && HOLDFAST_MUTANTS

/// The crash tests run threads one at a time: who would have to wait for another hands the turn on. Null: he waits.
inline thread_local void (*when_blocked)() noexcept = nullptr;

/// Whether another thread has had its turn meanwhile.
[[nodiscard]] inline bool give_others_a_turn() noexcept {
    if (when_blocked == nullptr) {
        return false;
    }
    when_blocked();
    return true;
}

#else

[[nodiscard]] constexpr bool give_others_a_turn() noexcept { return false; }

#endif

/// Gives the other thread of this core its turn, and saves power, in a loop that waits.
inline void relax_processor() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}

/// Waits some microseconds for `try_once` to say yes: pauses of 1, 2, 4 ... 128 turns, and again of 128.
template <class Try>
[[nodiscard]] bool wait_a_moment(Try try_once) noexcept {
    constexpr unsigned longest = 128;
    constexpr unsigned turns_in_all = 1024;
    for (unsigned done = 0, pause = 1; done < turns_in_all; done += pause, pause += pause < longest ? pause : 0) {
        for (unsigned i = 0; i < pause; ++i) {
            relax_processor();
        }
        if (try_once()) {
            return true;
        }
    }
    return false;
}

/// A lock, annotated: to take it is one instruction, and to give it up another. Who finds it locked looks again for
/// some microseconds before he sleeps, for to be woken takes ten times as long.
///
/// Three states, as in U. Drepper's "Futexes are tricky".
class HF_CAPABILITY("mutex") mutex {
public:
    mutex() = default;
    mutex(const mutex&) = delete;
    mutex& operator=(const mutex&) = delete;
    ~mutex() = default;

    void lock() noexcept HF_ACQUIRE() {
#if defined(HOLDFAST_MUTANTS) && HOLDFAST_MUTANTS
        do {
            if (try_lock()) {
                return;
            }
        } while (give_others_a_turn());
#endif
        if (!try_lock()) [[unlikely]] {
            wait_for_lock();
        }
    }
    void unlock() noexcept HF_RELEASE() {
        // In the one order of all: the library looks for sleepers by a load that must not come before this store.
        if (state_.exchange(unlocked, std::memory_order_seq_cst) == awaited) [[unlikely]] {
            state_.notify_one();
        }
    }
    [[nodiscard]] bool try_lock() noexcept HF_TRY_ACQUIRE(true) {
        int found = unlocked;
        return state_.compare_exchange_strong(found, locked, std::memory_order_acquire, std::memory_order_relaxed);
    }

private:
    static constexpr int unlocked = 0;
    static constexpr int locked = 1;
    static constexpr int awaited = 2;  ///< locked, and somebody may sleep

    [[gnu::noinline]] void wait_for_lock() noexcept {
        const auto try_again = [this] {
            int found = unlocked;
            return state_.load(std::memory_order_relaxed) == unlocked &&
                   state_.compare_exchange_weak(found, locked, std::memory_order_acquire, std::memory_order_relaxed);
        };
        if (wait_a_moment(try_again)) {
            return;
        }
        while (state_.exchange(awaited, std::memory_order_acquire) != unlocked) {
            state_.wait(awaited, std::memory_order_relaxed);
        }
    }

    std::atomic<int> state_{unlocked};
};

/// A lock for a few dozen instructions that no system call is among: to give it up is a plain store. Who waits long,
/// for the one who has it was put aside by the scheduler, sleeps a little, and looks again.
class HF_CAPABILITY("mutex") brief_mutex {
public:
    brief_mutex() = default;
    brief_mutex(const brief_mutex&) = delete;
    brief_mutex& operator=(const brief_mutex&) = delete;
    ~brief_mutex() = default;

    void lock() noexcept HF_ACQUIRE() {
        while (!try_lock()) [[unlikely]] {
            if (!give_others_a_turn() && wait_for_lock()) {
                return;
            }
        }
    }
    void unlock() noexcept HF_RELEASE() { locked_.store(false, std::memory_order_release); }
    [[nodiscard]] bool try_lock() noexcept HF_TRY_ACQUIRE(true) {
        return !locked_.exchange(true, std::memory_order_acquire);
    }

private:
    [[gnu::noinline]] bool wait_for_lock() noexcept {
        if (wait_a_moment([this] { return !locked_.load(std::memory_order_relaxed) && try_lock(); })) {
            return true;
        }
        constexpr timespec a_little{0, 50'000};
        ::nanosleep(&a_little, nullptr);
        return false;
    }

    std::atomic<bool> locked_{false};
};

/// Holds a lock from its construction to the end of its scope.
template <class Mutex>
class HF_SCOPED_CAPABILITY scoped_lock {
public:
    explicit scoped_lock(Mutex& held) HF_ACQUIRE(held) : held_(held) { held_.lock(); }
    scoped_lock(const scoped_lock&) = delete;
    scoped_lock& operator=(const scoped_lock&) = delete;
    ~scoped_lock() HF_RELEASE() { held_.unlock(); }

private:
    Mutex& held_;
};

}  // namespace holdfast::base
