// Locks of static objects. A thread that forks beside other threads holds all of them meanwhile, so the child finds
// them free, and what they guard whole. Who holds one blocks signals: a handler that forks would wait for its own
// thread.
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>

#include "base/interruption.hpp"
#include "base/mutex.hpp"

namespace holdfast::base {

/// One lock each. A thread that holds several has taken them in this order.
enum class fork_rank : std::uint8_t {
    environments,
    addresses_of_values,
    stores,
    object_claims,
    heap_lives,
    error_handler,
    open_heaps,
    thread_caches,
    known_files,
    sites,
};

/// Constant-initialised. Never destroyed where it was locked.
class HF_CAPABILITY("mutex") fork_mutex {
public:
    constexpr explicit fork_mutex(fork_rank rank) noexcept : rank_(static_cast<std::size_t>(rank)) {}
    fork_mutex(const fork_mutex&) = delete;
    fork_mutex& operator=(const fork_mutex&) = delete;
    ~fork_mutex() = default;

    void lock() noexcept HF_ACQUIRE() {
        all[rank_].store(this, std::memory_order_release);
        const sigset_t before = block_signals();
        mutex_.lock();
        before_ = before;
    }
    void unlock() noexcept HF_RELEASE() {
        const sigset_t before = before_;
        mutex_.unlock();
        restore_signals(before);
    }

private:
    friend class fork_handlers;

    static constexpr std::size_t ranks = 10;
    static constinit std::array<std::atomic<fork_mutex*>, ranks> all;  // NOLINT(readability-identifier-naming)

    std::size_t rank_;
    base::mutex mutex_;
    sigset_t before_{};  ///< what the holder blocked before; guarded by mutex_
};

}  // namespace holdfast::base
