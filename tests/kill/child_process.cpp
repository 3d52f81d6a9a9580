#include "kill/child_process.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <string>
#include <system_error>

namespace holdfast::test {

child_process::child_process(const std::function<int()>& work) : id_(::fork()), end_(-1) {
    if (id_ < 0) {
        throw std::system_error(errno, std::generic_category(), "fork");
    }
    if (id_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::_exit(work());
    }
    end_ = static_cast<int>(::syscall(SYS_pidfd_open, id_, 0));
}

child_process::~child_process() {
    kill();
    ::close(end_);
}

bool child_process::ends_within(std::uint64_t nanoseconds) const {
    constexpr std::uint64_t second = 1'000'000'000;
    const timespec limit{static_cast<time_t>(nanoseconds / second), static_cast<long>(nanoseconds % second)};
    pollfd end{end_, POLLIN, 0};
    return ended_ || ::ppoll(&end, 1, &limit, nullptr) == 1;
}

bool child_process::runs_until(const std::function<bool()>& reached) const {
    constexpr std::uint64_t interval_ns = 5'000;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!reached() && !ends_within(interval_ns)) {
        if (std::chrono::steady_clock::now() > deadline) {
            return false;
        }
    }
    return true;
}

void child_process::send_kill() const noexcept {
    if (!ended_) {
        ::kill(id_, SIGKILL);
    }
}

int child_process::wait() noexcept {
    while (!ended_) {
        ended_ = ::waitpid(id_, &status_, 0) == id_ || errno != EINTR;
    }
    return status_;
}

int child_process::kill() noexcept {
    send_kill();
    return wait();
}

std::string describe_end(int status) {
    if (WIFSIGNALED(status)) {
        return WTERMSIG(status) == SIGKILL ? std::string() : "died of signal " + std::to_string(WTERMSIG(status));
    }
    return "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace holdfast::test
