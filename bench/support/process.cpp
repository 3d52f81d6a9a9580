#include "support/process.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>
#include <spawn.h>

extern char** environ;  // NOLINT(readability-identifier-naming): POSIX names it

namespace bench {

namespace {

/// Where a loader that is named explicitly has started this program, /proc/self/exe is the loader.
const char* self() noexcept {
    const char* const given = std::getenv("HOLDFAST_BENCH_PROGRAM");
    return given != nullptr ? given : "/proc/self/exe";
}

}  // namespace

std::string read_to_end(int file) {
    std::string text;
    std::array<char, 4096> buffer{};
    for (;;) {
        const ssize_t got = ::read(file, buffer.data(), buffer.size());
        if (got > 0) {
            text.append(buffer.data(), static_cast<std::size_t>(got));
        } else if (got == 0 || errno != EINTR) {
            return text;
        }
    }
}

std::string run_self(const std::vector<std::string>& arguments) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw std::system_error(errno, std::generic_category(), "pipe2");
    }
    std::vector<std::string> words{self()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) {
        argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    pid_t child = 0;
    const int refused = ::posix_spawn(&child, words.front().c_str(), &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (refused != 0) {
        ::close(ends[0]);
        throw std::system_error(refused, std::generic_category(), "posix_spawn");
    }
    std::string text = read_to_end(ends[0]);
    ::close(ends[0]);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        throw std::runtime_error(fmt::format("a worker ended with status {:#x}", static_cast<unsigned>(status)));
    }
    return text;
}

std::uint64_t resident_bytes() {
    std::ifstream words("/proc/self/smaps_rollup");
    for (std::string word; words >> word;) {
        std::uint64_t kibibytes = 0;
        if (word == "Rss:" && words >> kibibytes) {
            return kibibytes * 1024;
        }
    }
    throw std::runtime_error("/proc/self/smaps_rollup does not say how much of this process is in memory");
}

}  // namespace bench
