// Wakes the thread that gives free memory back while a program rests. It sleeps where there is nothing to give back.
#pragma once

#include <ctime>

#include "base/atomic.hpp"

namespace holdfast::slab {

/// Thread-safe; one thread at a time sleeps.
class upkeep_alarm {
public:
    /// The heap is used: there may be something to give back later. No system call unless the thread sleeps.
    void note_use() noexcept {
        if (state_.load(std::memory_order_relaxed) != used) {
            wake();
        }
    }
    /// Whether note_use() came since the last time.
    [[nodiscard]] bool take_use() noexcept { return state_.exchange(unused) == used; }
    /// Until the next note_use(), or for no reason.
    void sleep() noexcept {
        constexpr timespec long_time{.tv_sec = 86'400, .tv_nsec = 0};
        std::uint32_t expected = unused;
        if (state_.compare_exchange_strong(expected, asleep)) {
            base::sleep_while(state_, asleep, long_time);
            expected = asleep;
            state_.compare_exchange_strong(expected, unused);
        }
    }

private:
    static constexpr std::uint32_t unused = 0;
    static constexpr std::uint32_t used = 1;
    static constexpr std::uint32_t asleep = 2;

    void wake() noexcept {
        if (state_.exchange(used) == asleep) {
            base::wake_sleepers(state_);
        }
    }

    base::atomic<std::uint32_t> state_{unused};
};

}  // namespace holdfast::slab
