// clang's -Wthread-safety checks the annotations. std::mutex has none, and base::mutex is faster.
#pragma once

#include <atomic>
#include <cstdint>

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
#define HF_ASSERTS_HELD(...) HF_THREAD_ANNOTATION(assert_capability(__VA_ARGS__))
#define HF_EXCLUDES(...) HF_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
/// A comment at each use gives the reason.
#define HF_NO_THREAD_SAFETY_ANALYSIS HF_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace holdfast::base {

#if defined(HOLDFAST_MUTANTS) && HOLDFAST_MUTANTS

/// The crash tests run one thread at a time: a thread that would wait calls this to let the others run. Null: the
/// thread waits.
inline thread_local void (*when_blocked)() noexcept = nullptr;

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

inline void relax_processor() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}

/// Tries for some microseconds, with growing pauses.
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

/// One atomic instruction to lock, one to unlock. A thread retries for some microseconds before it sleeps: being woken
/// takes ten times as long. A thread that comes by takes the lock before one that is being woken, which others let go
/// first after a long wait. Source of the three states: U. Drepper, "Futexes are tricky".
class HF_CAPABILITY("mutex") mutex {
public:
    mutex() = default;
    mutex(const mutex&) = delete;
    mutex& operator=(const mutex&) = delete;
    ~mutex() = default;

    void lock() noexcept HF_ACQUIRE() {
#if defined(HOLDFAST_MUTANTS) && HOLDFAST_MUTANTS
        for (; when_blocked != nullptr; when_blocked()) {
            if (try_lock()) {
                return;
            }
        }
#endif
        if (overtaken_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
            let_others_go_first();
        }
        if (!try_lock()) [[unlikely]] {
            wait_for_lock();
        }
    }
    void unlock() noexcept HF_RELEASE() {
        // Sequentially consistent: the load by which notify_one() looks for sleepers must not come before this store.
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
    static constexpr int awaited = 2;  ///< locked, and a thread may sleep
    /// A woken thread that has waited longer and still finds the lock taken is overtaken.
    static constexpr std::int64_t patience_ns = 1'000'000;

    [[gnu::noinline]] void wait_for_lock() noexcept {
        const auto try_again = [this] {
            int found = unlocked;
            return state_.load(std::memory_order_relaxed) == unlocked &&
                   state_.compare_exchange_weak(found, locked, std::memory_order_acquire, std::memory_order_relaxed);
        };
        if (wait_a_moment(try_again)) {
            return;
        }
        const std::int64_t began = now_ns();
        bool is_overtaken = false;
        while (state_.exchange(awaited, std::memory_order_acquire) != unlocked) {
            if (!is_overtaken && now_ns() - began > patience_ns) {
                is_overtaken = true;
                overtaken_.fetch_add(1, std::memory_order_relaxed);
            }
            state_.wait(awaited, std::memory_order_relaxed);
        }
        if (is_overtaken) {
            overtaken_.fetch_sub(1, std::memory_order_relaxed);
        }
    }
    [[nodiscard]] static std::int64_t now_ns() noexcept {
        timespec now{};
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1'000'000'000 + now.tv_nsec;
    }
    /// Waits as long as a busy machine keeps a woken thread from running. One that cannot run at all must not stop the
    /// others.
    [[gnu::noinline]] void let_others_go_first() const noexcept {
        const auto none_waits = [this] { return overtaken_.load(std::memory_order_relaxed) == 0; };
        constexpr timespec a_little{0, 50'000};
        constexpr unsigned pauses = 100;
        for (unsigned done = 0; done < pauses && !(done == 0 ? wait_a_moment(none_waits) : none_waits()); ++done) {
            ::nanosleep(&a_little, nullptr);
        }
    }

    std::atomic<int> state_{unlocked};
    std::atomic<int> overtaken_{0};
};

/// For a few dozen instructions without a system call; unlocking is a plain store. Where the owner was descheduled, a
/// thread sleeps 50 us at a time between attempts.
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
