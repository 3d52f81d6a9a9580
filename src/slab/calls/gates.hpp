// Two gates that a commit closes while it reads: commit_gate keeps out slow paths, which change what a commit writes of
// the allocator; change_gate keeps out changes of the program that a commit must not cut in two.
//
// Calls announce themselves in their threads' caches by plain stores, then read the gate. A thread that closes it runs
// a barrier on all cores, then reads the caches.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/mutex.hpp"
#include "lane/announcement_barrier.hpp"
#include "slab/calls/thread_cache.hpp"
#include "slab/pool/pool_state.hpp"

namespace holdfast::slab {

/// Keeps other threads out of the slow paths while a commit writes what these change on media. A program that commits
/// while other threads use the heap may lose present changes, never what was committed (decision 26). Thread-safe.
class commit_gate final : public gate_of_pool {
public:
    explicit commit_gate(cache_group& caches) noexcept : caches_(caches) {}

    /// Waits until no other thread is inside. Must not be called from inside.
    void close() noexcept HF_NO_THREAD_SAFETY_ANALYSIS;
    void open() noexcept HF_NO_THREAD_SAFETY_ANALYSIS;
    [[nodiscard]] bool is_closed() const noexcept { return closed_.load(std::memory_order_seq_cst); }
    /// Other threads see what this one stored before, and the reverse.
    void meet_all_threads() const noexcept { barrier_.see_announcements(); }

    [[nodiscard]] thread_cache* cache() const noexcept { return thread_cache_registry::find_or_attach(caches_); }
    /// False where the thread is inside already.
    [[nodiscard]] bool enter(thread_cache* cache) noexcept {
        if (cache == nullptr) [[unlikely]] {
            return enter_late();
        }
        if (cache->inside.load(std::memory_order_relaxed) != 0) {
            return false;
        }
        barrier_.announce(cache->inside, 1);
        // Acquire: a call that finds the gate open again stores after the commit has read.
        if (closed_.load(std::memory_order_acquire)) [[unlikely]] {
            wait_for_open(*cache);
        }
        return true;
    }
    void leave(thread_cache* cache) noexcept {
        if (cache == nullptr) [[unlikely]] {
            leave_late();
        } else {
            cache->inside.store(0, std::memory_order_release);
        }
    }

    entry enter_pool() noexcept override {
        thread_cache* const own = cache();
        return {own, enter(own)};
    }
    void leave_pool(const entry& entered) noexcept override {
        if (entered.is_first) {
            leave(entered.of);
        }
    }

private:
    void wait_for_open(thread_cache& cache) noexcept;
    [[nodiscard]] bool enter_late() noexcept HF_NO_THREAD_SAFETY_ANALYSIS;
    void leave_late() noexcept HF_NO_THREAD_SAFETY_ANALYSIS;

    cache_group& caches_;
    lane::announcement_barrier barrier_;
    std::atomic<bool> closed_{false};
    thread_cache* closer_ = nullptr;
    base::mutex closing_;  ///< held while the gate is closed
    base::mutex late_;     ///< held while closed, and by a thread without a cache inside
};

class [[nodiscard]] slow_call {
public:
    explicit slow_call(commit_gate& gate) noexcept : slow_call(gate, gate.cache()) {}
    slow_call(commit_gate& gate, thread_cache* cache) noexcept
        : gate_(gate), cache_(cache), entered_(gate.enter(cache)) {}
    slow_call(const slow_call&) = delete;
    slow_call& operator=(const slow_call&) = delete;
    ~slow_call() {
        if (entered_) {
            gate_.leave(cache_);
        }
    }
    /// False where a signal handler has interrupted such a call.
    [[nodiscard]] bool is_first() const noexcept { return entered_; }

private:
    commit_gate& gate_;
    thread_cache* cache_;
    bool entered_;
};

/// Lets a commit of durability `commit` wait for changes that it must not cut in two: groups of stores, calls with
/// destinations, and transactions from their first new block on.
///
/// A commit writes pages one by one and then drops them, with what was stored to them meanwhile. A change that moves
/// what an earlier commit has (a split of a leaf, a reallocation) would lose it where the commit had one half of it. So
/// a commit begins when no change is open, and changes wait until it has ended.
///
/// Changes are counted, because they nest: a transaction of the user stays open while its thread makes other calls.
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
