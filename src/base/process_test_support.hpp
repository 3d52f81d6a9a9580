#pragma once

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <concepts>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <functional>
#include <ostream>
#include <string>
#include <system_error>
#include <type_traits>

#include <gtest/gtest.h>

namespace holdfast::base {

class process_end {
public:
    constexpr explicit process_end(int status) noexcept : status_(status) {}

    [[nodiscard]] int exit_status() const noexcept { return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1; }
    [[nodiscard]] int signal() const noexcept { return WIFSIGNALED(status_) ? WTERMSIG(status_) : 0; }
    [[nodiscard]] bool succeeded() const noexcept { return exit_status() == 0; }
    [[nodiscard]] bool was_killed() const noexcept { return signal() == SIGKILL; }

    [[nodiscard]] std::string text() const {
        return signal() != 0 ? "died of signal " + std::to_string(signal())
                             : "ended with status " + std::to_string(exit_status());
    }
    friend std::ostream& operator<<(std::ostream& out, const process_end& end) { return out << end.text(); }

private:
    int status_;
};

/// The process ends with this object.
class child_process {
public:
    /// The child exits with the result of `work`: an int, or a bool that is true for success. Where `work` returns
    /// nothing, it exits with 1 if an assertion of GoogleTest failed, else 0. An exception makes the status 3. Throws
    /// std::system_error if the process cannot be started.
    template <std::invocable Work>
    explicit child_process(Work&& work) {  // NOLINT(bugprone-forwarding-reference-overload): none is invocable
        std::fflush(nullptr);
        id_ = ::fork();
        if (id_ < 0) {
            throw std::system_error(errno, std::generic_category(), "fork");
        }
        if (id_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            run(work);
        }
        end_ = static_cast<int>(::syscall(SYS_pidfd_open, id_, 0));
    }
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;
    ~child_process() {
        kill();
        ::close(end_);
    }

    [[nodiscard]] pid_t id() const noexcept { return id_; }
    [[nodiscard]] bool ends_within(std::uint64_t nanoseconds) const {
        constexpr std::uint64_t second = 1'000'000'000;
        const timespec limit{static_cast<time_t>(nanoseconds / second), static_cast<long>(nanoseconds % second)};
        pollfd end{end_, POLLIN, 0};
        return ended_ || ::ppoll(&end, 1, &limit, nullptr) == 1;
    }
    /// False where neither `reached` holds nor the child ends within a minute.
    [[nodiscard]] bool runs_until(const std::function<bool()>& reached) const {
        constexpr std::uint64_t interval_ns = 5'000;
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!reached() && !ends_within(interval_ns)) {
            if (std::chrono::steady_clock::now() > deadline) {
                return false;
            }
        }
        return true;
    }
    /// May be called while another thread waits.
    void send(int signal) const noexcept {
        if (!ended_) {
            ::kill(id_, signal);
        }
    }
    process_end wait() noexcept {
        while (!ended_) {
            ended_ = ::waitpid(id_, &status_, 0) == id_ || errno != EINTR;
        }
        return process_end(status_);
    }
    process_end kill() noexcept {
        send(SIGKILL);
        return wait();
    }

private:
    template <class Work>
    [[noreturn]] static void run(Work& work) {
        int status = 3;
        try {
            if constexpr (std::is_void_v<decltype(work())>) {
                work();
                status = ::testing::Test::HasFailure() ? 1 : 0;
            } else if constexpr (std::is_same_v<decltype(work()), bool>) {
                status = work() ? 0 : 1;
            } else {
                status = work();
            }
        } catch (const std::exception& thrown) {
            std::fprintf(stderr, "in a child process: %s\n", thrown.what());
        }
        std::fflush(nullptr);
        ::_exit(status);
    }

    pid_t id_ = -1;
    int end_ = -1;  ///< a pidfd
    bool ended_ = false;
    int status_ = -1;
};

template <class Work>
[[nodiscard]] process_end run_in_child(Work&& work) {
    return child_process(work).wait();
}

template <class Work>
[[nodiscard]] bool succeeds_in_child(Work&& work) {
    const process_end end = run_in_child(work);
    if (!end.succeeded()) {
        std::printf("the process %s\n", end.text().c_str());
    }
    return end.succeeded();
}

/// Runs `work` in a child that is process 1, with thread 1, in a namespace of processes of its own. Its exit status is
/// that of child_process(work). The caller's later children are in that namespace, too.
template <class Work>
[[nodiscard]] int run_in_own_namespace(Work&& work) {
    if (::unshare((::geteuid() == 0 ? 0 : CLONE_NEWUSER) | CLONE_NEWPID) != 0) {
        return 77;
    }
    return child_process(work).wait().exit_status();
}

/// Else a test says NOT TESTED HERE.
[[nodiscard]] inline bool has_process_namespaces() {
    return run_in_child([] { return run_in_own_namespace([] { return ::getpid() == 1; }); }).succeeded();
}

/// It starts as zero bytes, which must be a valid T.
template <class T>
class shared_memory {
public:
    static_assert(std::is_trivially_destructible_v<T>);
    shared_memory() : memory_(::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
        if (memory_ == MAP_FAILED) {  // NOLINT(performance-no-int-to-ptr)
            throw std::system_error(errno, std::generic_category(), "mmap");
        }
    }
    shared_memory(const shared_memory&) = delete;
    shared_memory& operator=(const shared_memory&) = delete;
    ~shared_memory() { ::munmap(memory_, sizeof(T)); }

    [[nodiscard]] T* operator->() const noexcept { return static_cast<T*>(memory_); }
    [[nodiscard]] T& operator*() const noexcept { return *operator->(); }

private:
    void* memory_;
};

}  // namespace holdfast::base
