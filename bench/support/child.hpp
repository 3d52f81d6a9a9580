// A part of a benchmark in a process of its own, which may die in the midst of it.
#pragma once

#include <functional>

#include <nlohmann/json_fwd.hpp>

namespace bench {

class child_process {
public:
    explicit child_process(int to_parent) noexcept : to_parent_(to_parent) {}
    /// What run_child() returns; once.
    void hand_back(const nlohmann::json& result) const;
    /// SIGKILL, here and now: no destructor runs, nothing is closed.
    [[noreturn]] static void die() noexcept;

private:
    int to_parent_;
};

enum class ending { exits, dies };

/// Runs `work` in a child of this process, which returns from it or dies in it, as expected: else std::runtime_error,
/// and the child has printed why. Returns what was handed back, or null. This process must have no other threads.
using child_work = std::function<void(const child_process&)>;
nlohmann::json run_child(ending expected, const child_work& work);

}  // namespace bench
