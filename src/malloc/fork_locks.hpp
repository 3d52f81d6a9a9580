// What a fork holds besides the call gate, from before it closes the gate until after it has opened it.
//
// - fork() itself locks the C library's list of streams, after all handlers that came before. Whoever holds that lock
//   may wait for a stream, and the stream's holder for the gate (getline() allocates). So the list is locked first.
// - Signals are blocked: a handler that forks would wait for the gate that its own thread has closed.
#pragma once

#include <csignal>

namespace holdfast::drop_in {

/// Not thread-safe: each fork has its own.
class fork_locks {
public:
    void take() noexcept;
    void release_in_parent() noexcept;
    void release_in_child() noexcept;

private:
    sigset_t blocked_before_{};
    bool has_streams_ = false;
};

}  // namespace holdfast::drop_in
