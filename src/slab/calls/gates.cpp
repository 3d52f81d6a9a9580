#include "slab/calls/gates.hpp"

#include <sched.h>

#include <time.h>

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

namespace {

void let_others_go_on(unsigned round) noexcept {
    constexpr unsigned few = 64;
    constexpr timespec a_little{0, 50'000};
    if (base::give_others_a_turn()) {
        return;
    }
    if (round < few) {
        ::sched_yield();
    } else {
        ::nanosleep(&a_little, nullptr);
    }
}

}  // namespace

void change_gate::wait_until_open() noexcept {
    closing_.lock();
    closing_.unlock();
}

void change_gate::wait_for_open(thread_cache& cache) noexcept {
    do {
        leave(&cache);
        if (cache.is_changing()) {  // who closes the gate waits for this thread, or is this thread
            cache.changes.store(cache.changes.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
            return;
        }
        wait_until_open();
        barrier_.announce(cache.changes, cache.changes.load(std::memory_order_relaxed) + 1);
    } while (closed_.load(std::memory_order_acquire));
}

void change_gate::enter_without_cache() noexcept {
    while (true) {
        without_cache_.fetch_add(1, std::memory_order_seq_cst);
        if (!closed_.load(std::memory_order_seq_cst)) {
            return;
        }
        without_cache_.fetch_sub(1, std::memory_order_seq_cst);
        wait_until_open();
    }
}

bool change_gate::try_close(std::chrono::steady_clock::time_point until) noexcept {
    thread_cache* const mine = thread_cache_registry::find_or_attach(caches_);
    closing_.lock();
    closer_ = mine;
    if (mine != nullptr) {  // so that calls of this thread do not wait
        mine->changes.store(mine->changes.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    closed_.store(true, std::memory_order_seq_cst);
    barrier_.see_announcements();
    for (unsigned round = 0;
         without_cache_.load(std::memory_order_seq_cst) != 0 || thread_cache_registry::is_any_changing(caches_, mine);
         ++round) {
        if (std::chrono::steady_clock::now() >= until) {
            open();
            return false;
        }
        let_others_go_on(round);
    }
    return true;
}

void change_gate::open() noexcept {
    if (thread_cache* const mine = std::exchange(closer_, nullptr)) {
        leave(mine);
    }
    closed_.store(false, std::memory_order_seq_cst);
    closing_.unlock();
}

}  // namespace holdfast::slab
