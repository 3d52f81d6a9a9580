// Keeps other threads out of the slow paths while a commit writes what these change on media. A program that commits
// while other threads use the heap may lose present changes, never what was committed (decision 26).
//
// Calls announce themselves in their threads' caches by plain stores, then look at the gate. A thread that closes it
// runs a barrier on all cores, then looks at the caches.
#pragma once

#include <atomic>
#include <utility>

#include "base/thread_annotations.hpp"
#include "lane/announcement_barrier.hpp"
#include "slab/calls/thread_cache.hpp"
#include "slab/pool/gate_of_pool.hpp"

namespace holdfast::slab {

/// Thread-safe.
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

}  // namespace holdfast::slab
