// What may break into a call: a signal that ends a wait, a cancellation of the thread, a handler.
#pragma once

#include <pthread.h>

#include <csignal>
#include <utility>

namespace holdfast::base {

/// Of a thread that waits for other processes: whether it gives up when a signal has come. Null: it goes on waiting.
class interruption {
public:
    using question = bool (*)() noexcept;

    /// What was asked before.
    static question ask(question next) noexcept { return std::exchange(asked_, next); }
    /// Behind EINTR.
    [[nodiscard]] static bool is_wanted() noexcept { return asked_ != nullptr && asked_(); }

private:
    inline static thread_local question asked_ = nullptr;
};

/// For the object's life the thread cannot be cancelled. Calls that write or sync are cancellation points
/// (pthread_cancel): inside an operation a cancellation would leave a lock held, or end the process.
class cancellation_off {
public:
    cancellation_off() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    cancellation_off(const cancellation_off&) = delete;
    cancellation_off& operator=(const cancellation_off&) = delete;
    ~cancellation_off() { ::pthread_setcancelstate(before_, nullptr); }

private:
    int before_ = PTHREAD_CANCEL_ENABLE;
};

// Keeps handlers of signals out of a thread while it has what a handler would wait for.

/// Blocks all signals of the calling thread, but those of its own faults. Returns what was blocked before.
[[nodiscard]] inline sigset_t block_signals() noexcept {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) {
        ::sigdelset(&blocked, fault);
    }
    sigset_t before;
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
    return before;
}
inline void restore_signals(const sigset_t& before) noexcept { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }

/// The signals of the calling thread are blocked for the object's life. Belongs to one thread.
class no_signals {
public:
    no_signals() = default;
    no_signals(const no_signals&) = delete;
    no_signals& operator=(const no_signals&) = delete;
    ~no_signals() { restore_signals(before_); }

private:
    sigset_t before_ = block_signals();
};

}  // namespace holdfast::base
