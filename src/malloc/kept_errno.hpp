// The allocator's own calls leave errno as the program had it.
#pragma once

#include <cerrno>

namespace holdfast::drop_in {

/// For calls that succeed.
class kept_errno {
public:
    kept_errno() noexcept : before_(errno) {}
    kept_errno(const kept_errno&) = delete;
    kept_errno& operator=(const kept_errno&) = delete;
    ~kept_errno() { errno = before_; }
    void fail(int with) noexcept { before_ = with; }

private:
    int before_;
};

}  // namespace holdfast::drop_in
