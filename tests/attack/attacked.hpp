// What the attacks on the files of a heap share: heaps in each durability, and processes that meet.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <holdfast/manager.hpp>

namespace holdfast::attack {

inline constexpr std::array durabilities{durability::commit, durability::collect, durability::atomic};

/// Small segments, and whatever the durability asks for on a file system without dax.
[[nodiscard]] open_options options_for(durability wanted);
[[nodiscard]] std::string name_of(durability wanted);

/// Makes a heap at `step` in this durability, closed.
void make_heap(const std::string& path, std::uint64_t step, durability wanted);

/// The step of the heap at `path`, whose check() finds nothing.
[[nodiscard]] std::uint64_t step_at(const std::string& path);

/// The working directory, until it goes; then the one before.
class working_directory {
public:
    explicit working_directory(const std::string& path);
    working_directory(const working_directory&) = delete;
    working_directory& operator=(const working_directory&) = delete;
    ~working_directory();

private:
    std::string before_;
};

/// Starts a process for each action, lets them go at once, and waits for all: their answers, 0 to 255; -1 of one that
/// did not end by itself.
[[nodiscard]] std::vector<int> at_once(const std::vector<std::function<int()>>& actions);

/// Runs the action in a process that is killed where it takes longer than `seconds`; false then, or where it failed.
[[nodiscard]] bool ends_within(unsigned seconds, const std::function<void()>& action);

}  // namespace holdfast::attack
