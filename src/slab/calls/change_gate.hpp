// Lets a commit of durability `commit` wait for changes that it must not cut in two: groups of stores, calls with
// destinations, and transactions from their first new block on.
//
// A commit writes pages one by one and then drops them, with what was stored to them meanwhile. A change that moves
// what an earlier commit has (a split of a leaf, a reallocation) would lose it where the commit had one half of it. So
// a commit begins when no change is open, and changes wait until it has ended.
//
// Changes announce themselves in their threads' caches by plain stores, as slow calls do (commit_gate.hpp). They are
// counted, because they nest: a transaction of the user stays open while its thread makes other calls.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/thread_annotations.hpp"
#include "lane/announcement_barrier.hpp"
#include "slab/calls/thread_cache.hpp"

namespace holdfast::slab {

/// Thread-safe.
class change_gate {
public:
    explicit change_gate(cache_group& caches) noexcept : caches_(caches) {}
    change_gate(const change_gate&) = delete;
    change_gate& operator=(const change_gate&) = delete;

    /// Begins a change; the result is for its end. Waits while the gate is closed, unless this thread has closed it or
    /// has another change open.
    [[nodiscard]] thread_cache* enter() noexcept {
        thread_cache* const cache = thread_cache_registry::find_or_attach(caches_);
        if (cache == nullptr) [[unlikely]] {
            enter_without_cache();
            return nullptr;
        }
        barrier_.announce(cache->changes, cache->changes.load(std::memory_order_relaxed) + 1);
        // Acquire: a change that finds the gate open again stores after the commit has read.
        if (closed_.load(std::memory_order_acquire)) [[unlikely]] {
            wait_for_open(*cache);
        }
        return cache;
    }
    /// In the thread that has entered.
    void leave(thread_cache* entered) noexcept {
        if (entered == nullptr) [[unlikely]] {
            without_cache_.fetch_sub(1, std::memory_order_seq_cst);
        } else {
            entered->changes.store(entered->changes.load(std::memory_order_relaxed) - 1, std::memory_order_release);
        }
    }
    /// In any thread.
    void leave_anywhere(thread_cache* entered) noexcept {
        if (entered == nullptr || entered == thread_cache_registry::find_or_attach(caches_)) [[likely]] {
            leave(entered);
        } else {
            thread_cache_registry::end_change_of(entered, caches_);
        }
    }

    /// Keeps changes of other threads out. False, and the gate is open, where some did not end before `until`. Waits
    /// for a thread that has closed it.
    [[nodiscard]] bool try_close(std::chrono::steady_clock::time_point until) noexcept HF_NO_THREAD_SAFETY_ANALYSIS;
    void open() noexcept HF_NO_THREAD_SAFETY_ANALYSIS;

private:
    [[gnu::cold]] void enter_without_cache() noexcept;
    [[gnu::cold]] void wait_for_open(thread_cache& cache) noexcept;
    void wait_until_open() noexcept;

    cache_group& caches_;
    lane::announcement_barrier barrier_;
    std::atomic<bool> closed_{false};
    thread_cache* closer_ = nullptr;
    std::atomic<std::uint64_t> without_cache_{0};  ///< changes of threads without a cache
    base::mutex closing_;                          ///< held while the gate is closed
};

/// A change that ends in the block where it begins. Null: none.
class change_call {
public:
    explicit change_call(change_gate* gate) noexcept : gate_(gate) {
        if (gate != nullptr) {
            entered_ = gate->enter();
        }
    }
    change_call(const change_call&) = delete;
    change_call& operator=(const change_call&) = delete;
    ~change_call() {
        if (gate_ != nullptr) {
            gate_->leave(entered_);
        }
    }

private:
    change_gate* gate_;
    thread_cache* entered_ = nullptr;
};

}  // namespace holdfast::slab
