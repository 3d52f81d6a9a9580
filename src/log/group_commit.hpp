// Threads that wait for records to be durable. The first who finds nobody writing leads: it writes for all, and the
// others wait. Thread-safe. `Synchronisation` has the atomics, so that a test can run every order of their steps.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/cancellation.hpp"
#include "base/thread_annotations.hpp"
#include "persist/mutant.hpp"

namespace holdfast::log {

struct thread_synchronisation {
    template <class T>
    using atomic = std::atomic<T>;
    static void wait(const std::atomic<std::uint32_t>& word, std::uint32_t while_it_is) noexcept {
        if (!base::give_others_a_turn()) {
            word.wait(while_it_is, std::memory_order_acquire);
        }
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
        for (;;) {
            // Before the rest is looked at: a leader that ends in between has counted the round, and nobody sleeps.
            const std::uint32_t round = round_.load(std::memory_order_acquire);
            if (durable_.load(std::memory_order_acquire) >= sequence) {
                return true;
            }
            if (failed_.load(std::memory_order_acquire)) {
                return false;
            }
            if (leading_.exchange(true, std::memory_order_acquire)) {
                Synchronisation::wait(round_, round);
                continue;
            }
            const base::cancellation_off until_written;
            if (durable_.load(std::memory_order_acquire) < sequence && !failed_.load(std::memory_order_acquire)) {
                write(lead);
            }
            if (HF_MUTANT("log.group.round_first")) {
                end_round();
                leading_.store(false, std::memory_order_release);
            } else {
                leading_.store(false, std::memory_order_release);
                end_round();
            }
        }
    }

    void fail() noexcept { failed_.store(true, std::memory_order_release); }
    [[nodiscard]] bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
    [[nodiscard]] std::uint64_t durable() const noexcept { return durable_.load(std::memory_order_acquire); }

private:
    template <class Lead>
    void write(Lead& lead) noexcept {
        const std::optional<std::uint64_t> reached = lead();
        if (reached.has_value()) {
            durable_.store(*reached, std::memory_order_release);
        } else if (!HF_MUTANT("log.group.failure")) {
            failed_.store(true, std::memory_order_release);  // LOG-8
        }
    }
    void end_round() noexcept {
        round_.fetch_add(1, std::memory_order_release);
        round_.notify_all();
    }

    template <class T>
    using atomic = typename Synchronisation::template atomic<T>;

    atomic<std::uint64_t> durable_;
    atomic<std::uint32_t> round_{0};
    atomic<bool> leading_{false};
    atomic<bool> failed_{false};
};

}  // namespace holdfast::log
