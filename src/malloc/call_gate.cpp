#include "malloc/call_gate.hpp"

#include <sched.h>

#include <cerrno>
#include <new>

#include "base/interruption.hpp"

namespace holdfast::drop_in {

void call_gate::add(call_record& thread) noexcept {
    thread.state.store(static_cast<std::uint64_t>(call_state::inside), std::memory_order_relaxed);
    const base::no_signals blocked;
    const base::scoped_lock closing(closing_);  // no thread comes while the gate is closed
    const base::scoped_lock lock(list_mutex_);
    thread.previous = nullptr;
    thread.next = first_;
    if (first_ != nullptr) {
        first_->previous = &thread;
    }
    first_ = &thread;
    thread.listed = true;
}

void call_gate::remove(call_record& thread) noexcept {
    const base::no_signals blocked;
    const base::scoped_lock lock(list_mutex_);
    (thread.previous == nullptr ? first_ : thread.previous->next) = thread.next;
    if (thread.next != nullptr) {
        thread.next->previous = thread.previous;
    }
    thread.listed = false;
    thread.state.store(static_cast<std::uint64_t>(call_state::ended), std::memory_order_release);
}

void call_gate::wait_inside(call_record& thread) noexcept {
    const int before = errno;  // a call that succeeds must leave it as it was
    do {
        leave(thread);
        {
            const base::no_signals blocked;
            const base::scoped_lock until_open(closing_);
        }
        barrier_.announce(thread.state, static_cast<std::uint64_t>(call_state::inside));
    } while (closed_.load(std::memory_order_acquire));
    errno = before;
}

call_state call_gate::close(call_record& self) noexcept {
    closing_.lock();
    late_mutex_.lock();
    // Not earlier: a thread that closes the gate waits for all that are inside, and these locks wait for that thread.
    const call_state before = state_of(self);
    self.state.store(static_cast<std::uint64_t>(call_state::inside), std::memory_order_relaxed);
    closed_.store(true, std::memory_order_seq_cst);
    barrier_.see_announcements();
    for (bool waits = true; waits;) {
        waits = false;
        {
            const base::scoped_lock lock(list_mutex_);  // a thread that ends may remove itself meanwhile
            for (const call_record* thread = first_; thread != nullptr; thread = thread->next) {
                waits = waits || (thread != &self && thread->state.load(std::memory_order_acquire) ==
                                                         static_cast<std::uint64_t>(call_state::inside));
            }
        }
        if (waits) {
            ::sched_yield();
        }
    }
    list_mutex_.lock();  // no thread ends either, so that a child finds the list whole
    return before;
}

void call_gate::open() noexcept {
    list_mutex_.unlock();
    closed_.store(false, std::memory_order_seq_cst);
    late_mutex_.unlock();
    closing_.unlock();
}

void call_gate::open_in_child(call_record& self) noexcept {
    // Threads of the parent may have waited for these locks.
    new (&list_mutex_) base::mutex;
    new (&late_mutex_) base::mutex;
    new (&closing_) base::mutex;
    first_ = self.listed ? &self : nullptr;
    self.next = self.previous = nullptr;
    closed_.store(false, std::memory_order_seq_cst);
}

}  // namespace holdfast::drop_in
