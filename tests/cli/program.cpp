#include "program.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <pty.h>
#include <spawn.h>

#include "support/scratch.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves the declaration to the program

namespace holdfast::support {

nlohmann::json answer::json() const {
    auto parsed = nlohmann::json::parse(out, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << "no JSON: " << out << err;
    return parsed;
}

namespace {

/// 0 where it does not start. Takes the actions.
pid_t start(const std::string& program, const std::vector<std::string>& arguments,
            posix_spawn_file_actions_t& actions) {
    std::vector<std::string> words{program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) {
        argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    pid_t child = 0;
    const int failed = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
        ADD_FAILURE() << "cannot start " << program;
        return 0;
    }
    return child;
}

int status_of(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

answer run_program(const std::string& program, const std::vector<std::string>& arguments) {
    const scratch_directory scratch;
    const std::string out = scratch / "out";
    const std::string err = scratch / "err";
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
    const pid_t child = start(program, arguments, actions);
    if (child == 0) {
        return {};
    }
    const int status = status_of(child);
    const auto text = [](const std::string& path) {
        const std::vector<char> bytes = read_bytes(path);
        return std::string(bytes.begin(), bytes.end());
    };
    return {status, text(out), text(err)};
}

answer run_holdfast_on_terminal(const std::vector<std::string>& arguments, unsigned short columns) {
    int here = -1;
    int there = -1;
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    if (::openpty(&here, &there, nullptr, nullptr, &size) != 0) {
        ADD_FAILURE() << "no terminal";
        return {};
    }
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, there, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, there, STDERR_FILENO);
    ::posix_spawn_file_actions_addclose(&actions, here);
    const pid_t child = start(HOLDFAST_PROGRAM, arguments, actions);
    ::close(there);
    answer said;
    char byte = 0;
    while (::read(here, &byte, 1) == 1) {  // an error where the other end is closed
        if (byte == '\n' && said.out.ends_with('\r')) {
            said.out.pop_back();
        }
        said.out += byte;
    }
    ::close(here);
    said.status = child == 0 ? -1 : status_of(child);
    return said;
}

answer run_holdfast(const std::vector<std::string>& arguments) { return run_program(HOLDFAST_PROGRAM, arguments); }

}  // namespace holdfast::support
