// A progress bar on standard error: redrawn in place on a terminal; elsewhere a line for every tenth of the work.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace package_graph {

class progress_bar {
public:
    /// Draws nothing where `shown` is false.
    progress_bar(bool shown, std::string what, std::uint64_t total);
    progress_bar(const progress_bar&) = delete;
    progress_bar& operator=(const progress_bar&) = delete;
    ~progress_bar();

    void update(std::uint64_t done, std::uint64_t commits);

private:
    using clock = std::chrono::steady_clock;

    void draw(std::uint64_t done, std::uint64_t commits);

    bool shown_;
    bool terminal_;
    bool line_open_ = false;
    std::string what_;
    std::uint64_t total_;
    std::uint64_t tenths_ = 0;
    clock::time_point last_draw_;
};

}  // namespace package_graph
