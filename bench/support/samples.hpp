// Wall times of repeated runs.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <vector>

namespace bench {

/// Measures from its construction on.
class stopwatch {
public:
    [[nodiscard]] double milliseconds() const {
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
    }

private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// CPU time of all threads of this process so far: what a loaded machine changes least.
[[nodiscard]] inline double cpu_milliseconds() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

/// Milliseconds of several runs of one thing. The figures are 0 while there is none.
class samples {
public:
    void add(double milliseconds) {
        values_.insert(std::upper_bound(values_.begin(), values_.end(), milliseconds), milliseconds);
    }
    [[nodiscard]] std::size_t count() const noexcept { return values_.size(); }
    [[nodiscard]] double median() const noexcept {
        if (values_.empty()) {
            return 0;
        }
        const std::size_t middle = values_.size() / 2;
        return values_.size() % 2 == 1 ? values_[middle] : (values_[middle - 1] + values_[middle]) / 2;
    }
    [[nodiscard]] double least() const noexcept { return values_.empty() ? 0 : values_.front(); }
    [[nodiscard]] double greatest() const noexcept { return values_.empty() ? 0 : values_.back(); }

private:
    std::vector<double> values_;  // ascending
};

}  // namespace bench
