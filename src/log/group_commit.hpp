// Threads that wait for records to be durable. The first who finds nobody writing leads: it writes for all, and the
// others wait. Threads that were served together come back soon, so a leader waits for as many as came last time, at
// most half the time of a write. Thread-safe. `Synchronisation` has the atomics and the time, so that a test can run
// every order of their steps.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include "base/atomic.hpp"
#include "base/interruption.hpp"
#include "base/mutex.hpp"

namespace holdfast::log {

struct thread_synchronisation {
    template <class T>
    using atomic = base::atomic<T>;
    static void wait(const atomic<std::uint32_t>& word, std::uint32_t while_it_is) noexcept {
        word.wait(while_it_is, std::memory_order_acquire);
    }
    using instant = std::chrono::steady_clock::time_point;
    using duration = std::chrono::steady_clock::duration;
    [[nodiscard]] static instant now() noexcept { return std::chrono::steady_clock::now(); }
    /// False once that time has come, and where a test chooses who runs. Lets other threads run.
    [[nodiscard]] static bool has_time_until(instant latest) noexcept {
        if (base::runs_by_choice() || base::give_others_a_turn()) {
            return false;
        }
        std::this_thread::yield();
        return now() < latest;
    }
};

template <class Synchronisation = thread_synchronisation>
class group_commit {
public:
    explicit group_commit(std::uint64_t durable) noexcept : durable_(durable) {}

    /// False: a write has failed, and the record is not durable. `lead` writes all that was appended before it began,
    /// and returns the last sequence, or nothing where that fails; one thread calls it at a time.
    template <class Lead>
    [[nodiscard]] bool wait(std::uint64_t sequence, Lead lead) noexcept {
        return wait_until([&] { return durable_.load(std::memory_order_acquire) >= sequence; },
                          [&] {
                              const std::optional<std::uint64_t> reached = lead();
                              if (reached.has_value()) {
                                  durable_.store(*reached, std::memory_order_release);
                              }
                              return reached.has_value();
                          });
    }

    /// As wait(), for a caller who knows whether all that it appended is durable. `lead` returns whether it has
    /// written.
    template <class IsDurable, class Lead>
    [[nodiscard]] bool wait_until(IsDurable is_durable, Lead lead) noexcept {
        for (bool has_come = false;; has_come = true) {
            // Before the rest is looked at: a leader that ends in between has counted the round, and nobody sleeps.
            const std::uint32_t round = round_.load(std::memory_order_acquire);
            if (is_durable()) {
                return true;
            }
            if (failed_.load(std::memory_order_acquire)) {
                return false;
            }
            if (!has_come) {
                come_.fetch_add(1, std::memory_order_release);
            }
            if (leading_.exchange(true, std::memory_order_acquire)) {
                Synchronisation::wait(round_, round);
                continue;
            }
            const base::cancellation_off until_written;
            if (!is_durable() && !failed_.load(std::memory_order_acquire)) {
                wait_for_served();
                write(lead);
            }
            leading_.store(false, std::memory_order_release);
            end_round();
        }
    }

    /// Somebody else has made records durable. No other call runs meanwhile.
    void raise(std::uint64_t durable) noexcept { durable_.store(durable, std::memory_order_release); }
    void fail() noexcept { failed_.store(true, std::memory_order_release); }
    [[nodiscard]] bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
    [[nodiscard]] std::uint64_t durable() const noexcept { return durable_.load(std::memory_order_acquire); }

private:
    void wait_for_served() const noexcept {
        if (busy_ < 2) {
            return;
        }
        const auto latest = Synchronisation::now() + last_write_ / 2;
        while (come_.load(std::memory_order_acquire) - served_ < busy_ && Synchronisation::has_time_until(latest)) {
        }
    }
    template <class Lead>
    void write(Lead& lead) noexcept {
        const auto begin = Synchronisation::now();
        const std::uint64_t served_before = served_;
        served_ = come_.load(std::memory_order_acquire);
        if (!lead()) {
            failed_.store(true, std::memory_order_release);  // LOG-8
        }
        last_write_ = Synchronisation::now() - begin;
        busy_ = come_.load(std::memory_order_relaxed) - served_before;
    }
    void end_round() noexcept {
        round_.fetch_add(1, std::memory_order_release);
        round_.notify_all();
    }

    template <class T>
    using atomic = typename Synchronisation::template atomic<T>;

    atomic<std::uint64_t> durable_;
    atomic<std::uint64_t> come_{0};  ///< threads so far, each once a wait
    atomic<std::uint32_t> round_{0};
    atomic<bool> leading_{false};
    atomic<bool> failed_{false};
    // The leader's.
    std::uint64_t served_ = 0;  ///< of those who came, by the last write
    std::uint64_t busy_ = 0;    ///< whom it served, and who came during it
    typename Synchronisation::duration last_write_{};
};

}  // namespace holdfast::log
