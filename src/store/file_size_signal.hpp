// `ulimit -f`: a call that would make a file too large sends SIGXFSZ, which ends the process, before it answers EFBIG.
#pragma once

#include <csignal>

namespace holdfast::store_engine {

/// While it lives, calls of this thread that make a file too large answer EFBIG alone.
class no_file_size_signal {
public:
    no_file_size_signal() noexcept;
    no_file_size_signal(const no_file_size_signal&) = delete;
    no_file_size_signal& operator=(const no_file_size_signal&) = delete;
    ~no_file_size_signal();

private:
    sigset_t signals_{};
    bool is_blocked_here_ = false;
};

}  // namespace holdfast::store_engine
