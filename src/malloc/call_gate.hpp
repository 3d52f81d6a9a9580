// Knows which threads are inside the allocator: what that allocates for itself is served elsewhere, and a fork waits
// for them. A thread that holds one of the gate's locks blocks signals: a handler that forks would wait for its own
// thread.
//
// Calls announce themselves in their threads' records by plain stores, then look at the gate. A thread that closes it
// runs a barrier on all cores (announcement_barrier.hpp), then looks at the records.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/mutex.hpp"
#include "lane/announcement_barrier.hpp"

namespace holdfast::drop_in {

enum class call_state : std::uint64_t {
    unknown = 0,  ///< no call yet
    outside = 1,
    inside = 2,  ///< what it allocates is for the allocator
    ended = 3,   ///< its cache is gone; they enter one by one
};

/// In thread-local storage, at first zeros.
struct call_record {
    std::atomic<std::uint64_t> state{0};
    call_record* next = nullptr;
    call_record* previous = nullptr;
    bool listed = false;  ///< by add(), until remove()
};

/// Constant-initialised. Thread-safe.
class call_gate {
public:
    explicit call_gate(const lane::announcement_barrier& barrier) noexcept : barrier_(barrier) {}
    call_gate(const call_gate&) = delete;
    call_gate& operator=(const call_gate&) = delete;

    /// Makes a thread known, and inside. While it is inside, it must wait for nothing that a thread outside may hold.
    void add(call_record& thread) noexcept;
    /// It must be inside.
    void remove(call_record& thread) noexcept;

    /// False where the thread was not outside.
    [[nodiscard]] bool try_enter(call_record& thread) noexcept {
        if (state_of(thread) != call_state::outside) [[unlikely]] {
            return false;
        }
        barrier_.announce(thread.state, static_cast<std::uint64_t>(call_state::inside));
        if (closed_.load(std::memory_order_acquire)) [[unlikely]] {
            wait_inside(thread);
        }
        return true;
    }
    static void leave(call_record& thread) noexcept {
        thread.state.store(static_cast<std::uint64_t>(call_state::outside), std::memory_order_release);
    }
    [[nodiscard]] static call_state state_of(const call_record& thread) noexcept {
        return static_cast<call_state>(thread.state.load(std::memory_order_relaxed));
    }

    /// Inside, held by a thread that has ended, with its signals blocked.
    base::mutex& late_mutex() noexcept { return late_mutex_; }

    /// Waits until no other thread is inside, and keeps all others out. The calling thread, which may be unknown and
    /// blocks signals until it opens the gate, is inside from then on. Returns its earlier state.
    [[nodiscard]] call_state close(call_record& self) noexcept HF_NO_THREAD_SAFETY_ANALYSIS;
    void open() noexcept HF_NO_THREAD_SAFETY_ANALYSIS;
    /// This thread is the only one.
    void open_in_child(call_record& self) noexcept HF_NO_THREAD_SAFETY_ANALYSIS;

private:
    void wait_inside(call_record& thread) noexcept;

    const lane::announcement_barrier& barrier_;
    std::atomic<bool> closed_{false};
    base::mutex closing_;  ///< held while the gate is closed
    base::mutex late_mutex_;
    base::mutex list_mutex_;
    call_record* first_ HF_GUARDED_BY(list_mutex_) = nullptr;
};

}  // namespace holdfast::drop_in
