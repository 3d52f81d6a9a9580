#include "support/child.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/process.hpp"

namespace bench {

namespace {

void write_all(int file, const std::string& text) {
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t wrote = ::write(file, text.data() + done, text.size() - done);
        if (wrote < 0 && errno != EINTR) {
            throw std::system_error(errno, std::generic_category(), "pipe");
        }
        done += wrote < 0 ? 0 : static_cast<std::size_t>(wrote);
    }
}

[[noreturn]] void be_child(int to_parent, const child_work& work) {
    try {
        work(child_process(to_parent));
        ::_exit(0);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "a process of the benchmark: {}\n", failure.what());
    }
    ::_exit(1);
}

}  // namespace

void child_process::hand_back(const nlohmann::json& result) const { write_all(to_parent_, result.dump()); }

void child_process::die() noexcept {
    for (;;) {
        ::kill(::getpid(), SIGKILL);
    }
}

nlohmann::json run_child(ending expected, const child_work& work) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) {
        throw std::system_error(errno, std::generic_category(), "pipe");
    }
    const pid_t child = ::fork();
    if (child == 0) {
        ::close(ends[0]);
        be_child(ends[1], work);
    }
    ::close(ends[1]);
    const std::string text = child < 0 ? std::string() : read_to_end(ends[0]);
    ::close(ends[0]);
    int status = 0;
    while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    const bool as_expected = expected == ending::dies ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                                      : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (child < 0 || !as_expected) {
        throw std::runtime_error(
            fmt::format("a process of the benchmark ended with status {:#x}", static_cast<unsigned>(status)));
    }
    return text.empty() ? nlohmann::json() : nlohmann::json::parse(text);
}

}  // namespace bench
