#include "program.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <spawn.h>

#include "support/scratch.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves the declaration to the program

namespace holdfast::support {

nlohmann::json answer::json() const {
    auto parsed = nlohmann::json::parse(out, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << "no JSON: " << out << err;
    return parsed;
}

answer run_program(const std::string& program, const std::vector<std::string>& arguments) {
    const scratch_directory scratch;
    const std::string out = scratch / "out";
    const std::string err = scratch / "err";
    std::vector<std::string> words{program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) {
        argv.push_back(word.data());
    }
    argv.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
    pid_t child = 0;
    const int failed = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
        ADD_FAILURE() << "cannot start " << program;
        return {};
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    const auto text = [](const std::string& path) {
        const std::vector<char> bytes = read_bytes(path);
        return std::string(bytes.begin(), bytes.end());
    };
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text(out), text(err)};
}

answer run_holdfast(const std::vector<std::string>& arguments) { return run_program(HOLDFAST_PROGRAM, arguments); }

}  // namespace holdfast::support
