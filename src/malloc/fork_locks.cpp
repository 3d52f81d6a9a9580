#include "malloc/fork_locks.hpp"

#include <pthread.h>
#include <sys/single_threaded.h>

// glibc has had these for its own threads library since 2.2.5, and exports them. They are no part of its headers.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
[[gnu::weak]] void _IO_list_lock() noexcept;
[[gnu::weak]] void _IO_list_unlock() noexcept;
[[gnu::weak]] void _IO_list_resetlock() noexcept;
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace holdfast::drop_in {

void fork_locks::take() noexcept {
    sigset_t all{};
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &blocked_before_);
    // With one thread, fork() does not lock it either, so that handlers of signals may fork.
    has_streams_ = __libc_single_threaded == 0 && &_IO_list_lock != nullptr && &_IO_list_unlock != nullptr &&
                   &_IO_list_resetlock != nullptr;
    if (has_streams_) {
        _IO_list_lock();
    }
}

void fork_locks::release_in_parent() noexcept {
    if (has_streams_) {
        _IO_list_unlock();
    }
    ::pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
}

void fork_locks::release_in_child() noexcept {
    if (has_streams_) {
        _IO_list_resetlock();  // as fork() has done, unless it took the process for one of a single thread
    }
    ::pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
}

}  // namespace holdfast::drop_in
