#include "slab/calls/commit_gate.hpp"

#include <sched.h>

namespace holdfast::slab {

void commit_gate::wait_for_open(thread_cache& cache) noexcept {
    do {
        cache.inside.store(0, std::memory_order_release);
        closing_.lock();
        closing_.unlock();
        barrier_.announce(cache.inside, 1);
    } while (closed_.load(std::memory_order_acquire));
}

bool commit_gate::enter_late() noexcept {
    if (this_thread_slots.inside_late) {
        return false;
    }
    late_.lock();
    this_thread_slots.inside_late = true;
    return true;
}

void commit_gate::leave_late() noexcept {
    this_thread_slots.inside_late = false;
    late_.unlock();
}

void commit_gate::close() noexcept {
    thread_cache* const mine = thread_cache_registry::find_or_attach(caches_);
    closing_.lock();
    late_.lock();
    this_thread_slots.inside_late = true;
    closer_ = mine;
    if (mine != nullptr) {
        mine->inside.store(1, std::memory_order_relaxed);
    }
    closed_.store(true, std::memory_order_seq_cst);
    barrier_.see_announcements();
    while (thread_cache_registry::is_any_inside(caches_, mine)) {
        if (!base::give_others_a_turn()) {
            ::sched_yield();
        }
    }
}

void commit_gate::open() noexcept {
    if (thread_cache* const mine = std::exchange(closer_, nullptr)) {
        mine->inside.store(0, std::memory_order_release);
    }
    closed_.store(false, std::memory_order_seq_cst);
    this_thread_slots.inside_late = false;
    late_.unlock();
    closing_.unlock();
}

}  // namespace holdfast::slab
