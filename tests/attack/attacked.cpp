#include "attacked.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>

#include <gtest/gtest.h>

#include "support/counted_heap.hpp"

namespace holdfast::attack {

namespace fs = std::filesystem;

namespace {

int exit_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }

/// In a child of fork: does what it is for, and ends without what its parent would do at its end.
[[noreturn]] void end_with(const std::function<int()>& action) {
    int answer = 255;
    try {
        answer = action();
    } catch (const std::exception& what) {
        std::fprintf(stderr, "in the child: %s\n", what.what());
    }
    std::fflush(nullptr);
    ::_exit(answer);
}

}  // namespace

open_options options_for(durability wanted) {
    open_options options = support::small_segments();
    options.durability = wanted;
    options.accept_process_crash_only = true;
    options.reservation = std::uint64_t{1} << 30U;
    return options;
}

std::string name_of(durability wanted) {
    switch (wanted) {
        case durability::commit: return "commit";
        case durability::collect: return "collect";
        case durability::atomic: return "atomic";
    }
    return "unknown";
}

void make_heap(const std::string& path, std::uint64_t step, durability wanted) {
    manager heap(create_only, path, options_for(wanted));
    for (std::uint64_t next = 1; next <= step; ++next) {
        support::advance(heap, next);
    }
    heap.close(true);
}

std::uint64_t step_at(const std::string& path) {
    const manager heap(open_read_only, path, options_for(durability::commit));
    for (const std::string& problem : heap.check(true)) {
        ADD_FAILURE() << path << ": " << problem;
    }
    return support::step_of(heap);
}

working_directory::working_directory(const std::string& path) : before_(fs::current_path().string()) {
    fs::current_path(path);
}

working_directory::~working_directory() {
    std::error_code ignored;
    fs::current_path(before_, ignored);
}

std::vector<int> at_once(const std::vector<std::function<int()>>& actions) {
    std::array<int, 2> gate{};
    if (::pipe(gate.data()) != 0) {
        throw std::runtime_error("pipe");
    }
    std::fflush(nullptr);
    std::vector<pid_t> children;
    for (const auto& action : actions) {
        children.push_back(::fork());
        if (children.back() == 0) {
            ::close(gate[1]);
            char nothing = 0;
            static_cast<void>(::read(gate[0], &nothing, 1));  // ends for all when the parent closes the other end
            end_with(action);
        }
    }
    ::close(gate[0]);
    ::close(gate[1]);
    std::vector<int> answers;
    for (const pid_t child : children) {
        int status = 0;
        answers.push_back(::waitpid(child, &status, 0) == child ? exit_code(status) : -1);
    }
    return answers;
}

bool ends_within(unsigned seconds, const std::function<void()>& action) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(seconds);  // kills: nobody handles it
        end_with([&] {
            action();
            return ::testing::Test::HasFailure() ? 1 : 0;
        });
    }
    int status = 0;
    return ::waitpid(child, &status, 0) == child && exit_code(status) == 0;
}

}  // namespace holdfast::attack
