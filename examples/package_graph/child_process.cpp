#include "child_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace package_graph {
namespace {

/// Runs in the child after fork(), so it calls only async-signal-safe functions.
[[noreturn]] void become(char* const* arguments, const char* output) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (output != nullptr) {
        const int file = ::open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (file < 0 || ::dup2(file, STDOUT_FILENO) < 0) {
            ::_exit(127);
        }
    }
    ::execvp(arguments[0], arguments);
    ::_exit(127);
}

}  // namespace

child_process::child_process(const std::vector<std::string>& command, const std::string& output) {
    std::vector<std::string> words = command;
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    id_ = ::fork();
    if (id_ < 0) {
        throw std::system_error(errno, std::generic_category(), "fork");
    }
    if (id_ == 0) {
        become(arguments.data(), output.empty() ? nullptr : output.c_str());
    }
}

child_process::~child_process() {
    if (!status_) {
        kill();
        static_cast<void>(collect(0));
    }
}

bool child_process::collect(int options) {
    if (status_) {
        return true;
    }
    int raw = 0;
    pid_t answer = 0;
    do {
        answer = ::waitpid(id_, &raw, options);
    } while (answer < 0 && errno == EINTR);
    if (answer == id_) {
        status_ = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
    }
    return status_.has_value();
}

bool child_process::running() { return !collect(WNOHANG); }

void child_process::kill() noexcept {
    if (!status_) {
        ::kill(id_, SIGKILL);
    }
}

int child_process::wait() { return collect(0) ? *status_ : 127; }

int run(const std::vector<std::string>& command, const std::string& output) {
    return child_process(command, output).wait();
}

}  // namespace package_graph
