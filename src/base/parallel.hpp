// Work that several threads share for a moment. They are made for it and end with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "base/interruption.hpp"

namespace holdfast::base {

/// Threads that are worth it, this one included, where each should have `least` of the `work`: at most `most`, and as
/// many as the machine has.
[[nodiscard]] inline unsigned workers_for(std::uint64_t work, std::uint64_t least, unsigned most) noexcept {
    const auto wanted = static_cast<unsigned>(std::clamp<std::uint64_t>(work / least, 1, most));
    // Little work does not ask, which opens a file.
    return wanted == 1 ? 1 : std::clamp(std::thread::hardware_concurrency(), 1U, wanted);
}

/// Calls `run(worker)` for each worker below `workers`, and returns when all have returned. Where a thread cannot be
/// made, this one does its part.
template <class Run>
void run_in_parallel(unsigned workers, Run&& run) {
    std::vector<std::jthread> threads;
    unsigned made = 1;
    if (workers > 1) {
        const no_signals while_they_begin;  // the program's handlers run on its own threads
        try {
            for (; made < workers; ++made) {
                threads.emplace_back(run, made);
            }
        } catch (const std::exception&) {  // no further thread
        }
    }
    for (; made < workers; ++made) {
        run(made);
    }
    run(0U);
}

}  // namespace holdfast::base
