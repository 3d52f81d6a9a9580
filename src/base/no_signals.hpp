// Keeps handlers of signals out of a thread while it holds what a handler would wait for.
#pragma once

#include <csignal>

namespace holdfast::base {

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
