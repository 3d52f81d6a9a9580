#include "attacked.hpp"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <list>
#include <system_error>
#include <thread>

#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "support/counted_heap.hpp"

namespace holdfast::attack {

namespace fs = std::filesystem;

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
    base::shared_memory<std::atomic<int>> gate;
    std::list<base::child_process> children;
    for (const auto& action : actions) {
        children.emplace_back([&] {
            while (*gate == 0) {
                std::this_thread::yield();
            }
            return action();
        });
    }
    *gate = 1;
    std::vector<int> answers;
    for (base::child_process& child : children) {
        answers.push_back(child.wait().exit_status());
    }
    return answers;
}

bool ends_within(unsigned seconds, const std::function<void()>& action) {
    return base::succeeds_in_child([&] {
        ::alarm(seconds);  // kills: nobody handles it
        action();
    });
}

}  // namespace holdfast::attack
