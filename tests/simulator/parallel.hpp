// Runs independent explorations on all processors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace holdfast::simulator {

/// At most 8: more explorations at once would need more memory than small machines have.
[[nodiscard]] inline unsigned processors() noexcept { return std::clamp(std::thread::hardware_concurrency(), 1U, 8U); }

/// Calls work(0) to work(count - 1) once each, started in ascending order, several at a time.
template <class Work>
void for_each_in_parallel(std::size_t count, const Work& work) {
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < processors(); ++i) {
        workers.emplace_back([&] {
            for (std::size_t at = next++; at < count; at = next++) {
                work(at);
            }
        });
    }
    for (auto& one : workers) {
        one.join();
    }
}

}  // namespace holdfast::simulator
