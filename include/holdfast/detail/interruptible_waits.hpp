// Waits for the turn of other processes that a signal ends: for interpreters, whose handlers run behind the call.
#pragma once

namespace holdfast::detail {

/// While it lives, a wait of this thread for another process's turn asks `gives_up` when a signal has come whose
/// handler does not restart system calls. Where it says so, the call fails with an error of the system, EINTR, and has
/// changed nothing. `gives_up` calls nothing of Holdfast.
class interruptible_waits {
public:
    explicit interruptible_waits(bool (*gives_up)() noexcept) noexcept;
    interruptible_waits(const interruptible_waits&) = delete;
    interruptible_waits& operator=(const interruptible_waits&) = delete;
    ~interruptible_waits();

private:
    bool (*before_)() noexcept;
};

}  // namespace holdfast::detail
