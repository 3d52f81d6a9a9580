// The words that locks in a segment consist of. Not for users.
#pragma once

#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast::compat::interprocess::detail {

inline std::uint64_t fresh_run() noexcept {
    // 40 bits of it are stored. Time and process alone may repeat: on another machine, or in another namespace.
    std::uint64_t random = 0;
    static_cast<void>(::getrandom(&random, sizeof random, GRND_NONBLOCK));
    std::uint64_t mixed = random ^
                          static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) ^
                          static_cast<std::uint64_t>(::getpid()) << 40U;
    mixed = (mixed ^ mixed >> 33U) * 0xff51afd7ed558ccdU;
    return mixed ^ mixed >> 33U;
}

/// Differs from all earlier runs, and from the process that this one was forked from.
inline std::uint64_t this_run() noexcept {
    static std::atomic<std::uint64_t> run{fresh_run()};
    static const int registered =
        ::pthread_atfork(nullptr, nullptr, [] { run.store(fresh_run(), std::memory_order_relaxed); });
    static_cast<void>(registered);
    return run.load(std::memory_order_relaxed);
}

/// 24 bits of state that only the run which stored them reads: for the next run, after a crash or a flush() in the
/// midst of things, they are 0. Lies in a segment; threads of this process wait for it.
class run_word {
public:
    static constexpr unsigned state_bits = 24;
    static constexpr std::uint64_t state_mask = (std::uint64_t{1} << state_bits) - 1;

    std::uint64_t state() const noexcept { return state_of(word_.load(std::memory_order_acquire)); }
    /// `change(state, next)` says whether `next` may replace the state; false where not.
    template <class Change>
    bool try_change(Change&& change) noexcept {
        std::uint64_t word = word_.load(std::memory_order_relaxed);
        for (;;) {
            std::uint64_t next = state_of(word);
            if (!change(next)) {
                return false;
            }
            if (word_.compare_exchange_weak(word, word_of(next), std::memory_order_acq_rel)) {
                return true;
            }
        }
    }
    template <class Change>
    void change(Change&& change) noexcept {
        while (!try_change(change)) {
            const std::uint64_t seen = word_.load(std::memory_order_acquire);
            std::uint64_t state = state_of(seen);
            if (!change(state)) {
                word_.wait(seen, std::memory_order_acquire);
            }
        }
    }
    void notify_all() noexcept { word_.notify_all(); }

private:
    static std::uint64_t word_of(std::uint64_t state) noexcept {
        return this_run() << state_bits | (state & state_mask);
    }
    static std::uint64_t state_of(std::uint64_t word) noexcept {
        return word >> state_bits == (this_run() << state_bits) >> state_bits ? word & state_mask : 0;
    }

    std::atomic<std::uint64_t> word_{0};
};

/// Until it succeeds or the time has come; sleeps at most a millisecond in between.
template <class TimePoint, class Attempt>
bool attempt_until(const TimePoint& time, Attempt&& attempt) {
    static_assert(
        requires { TimePoint::clock::now(); },
        "holdfast: times of locks are those of <chrono>: std::chrono::steady_clock::now() + duration");
    using namespace std::chrono_literals;
    for (auto pause = 1us;; pause = pause < 1000us ? pause * 2 : pause) {
        if (attempt()) {
            return true;
        }
        if (TimePoint::clock::now() >= time) {
            return false;
        }
        std::this_thread::sleep_for(pause);
    }
}

}  // namespace holdfast::compat::interprocess::detail
