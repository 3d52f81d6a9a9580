// Which lock guards what, in a form that clang's -Wthread-safety checks and other compilers pass over.
//
// The mutex of the library is base::mutex, for std::mutex bears no annotations: members that it guards are marked
// HF_GUARDED_BY(mutex_), functions that need it held HF_REQUIRES(mutex_).
#pragma once

#include <mutex>

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

/// std::mutex, annotated.
class HF_CAPABILITY("mutex") mutex {
public:
    mutex() = default;
    mutex(const mutex&) = delete;
    mutex& operator=(const mutex&) = delete;
    ~mutex() = default;

    void lock() HF_ACQUIRE() {
#if defined(HOLDFAST_MUTANTS) && HOLDFAST_MUTANTS
        do {
            if (mutex_.try_lock()) {
                return;
            }
        } while (give_others_a_turn());
#endif
        mutex_.lock();
    }
    void unlock() HF_RELEASE() { mutex_.unlock(); }
    [[nodiscard]] bool try_lock() HF_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

private:
    std::mutex mutex_;
};

/// Holds a mutex from its construction to the end of its scope.
class HF_SCOPED_CAPABILITY scoped_lock {
public:
    explicit scoped_lock(mutex& held) HF_ACQUIRE(held) : held_(held) { held_.lock(); }
    scoped_lock(const scoped_lock&) = delete;
    scoped_lock& operator=(const scoped_lock&) = delete;
    ~scoped_lock() HF_RELEASE() { held_.unlock(); }

private:
    mutex& held_;
};

}  // namespace holdfast::base
