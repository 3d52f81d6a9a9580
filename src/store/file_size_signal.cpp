#include "store/file_size_signal.hpp"

#include <cerrno>
#include <ctime>

namespace holdfast::store_engine {

no_file_size_signal::no_file_size_signal() noexcept {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGXFSZ);
    sigset_t before{};
    is_blocked_here_ = pthread_sigmask(SIG_BLOCK, &signals_, &before) == 0 && sigismember(&before, SIGXFSZ) == 0;
}

// The signal goes to the thread whose call failed, so what waits is of a call under this guard.
no_file_size_signal::~no_file_size_signal() {
    if (!is_blocked_here_) {
        return;
    }
    const int error = errno;
    constexpr timespec at_once{};
    sigset_t waiting{};
    if (sigpending(&waiting) == 0 && sigismember(&waiting, SIGXFSZ) != 0) {
        while (sigtimedwait(&signals_, nullptr, &at_once) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
    errno = error;
}

}  // namespace holdfast::store_engine
