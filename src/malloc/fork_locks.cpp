#include "malloc/fork_locks.hpp"

#include <sys/single_threaded.h>

#include "base/interruption.hpp"

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
    blocked_before_ = base::block_signals();
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
    base::restore_signals(blocked_before_);
}

void fork_locks::release_in_child() noexcept {
    if (has_streams_) {
        _IO_list_resetlock();  // as fork() has done, unless it took the process for one of a single thread
    }
    base::restore_signals(blocked_before_);
}

}  // namespace holdfast::drop_in
