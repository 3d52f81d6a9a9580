#include "simulator/atomic/atomic_scheduler.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/mutex.hpp"
#include "persist/mutant.hpp"

namespace holdfast::simulator {

namespace {

thread_local atomic_scheduler* this_scheduler = nullptr;

/// On a disk a thread is not cancelled while it writes to the log.
bool may_die(persist::site where) { return !std::string_view(where).starts_with("log."); }

#if HOLDFAST_MUTANTS
void step_of_schedule(persist::site where) { this_scheduler->step(where); }

void wait_in_schedule() noexcept { this_scheduler->wait_for_other(); }
#endif

}  // namespace

atomic_scheduler::atomic_scheduler() {
    for (unsigned i = 0; i < threads; ++i) {
        threads_.at(i) = std::thread([this, i] { work(i); });
    }
}

atomic_scheduler::~atomic_scheduler() {
    over_ = true;
    for (unsigned i = 0; i < threads; ++i) {
        turns_.at(i).release();
        threads_.at(i).join();
    }
}

void atomic_scheduler::work(unsigned self) {
    this_scheduler = this;
#if HOLDFAST_MUTANTS
    persist::set_step_function(step_of_schedule);
    base::when_blocked = wait_in_schedule;
#endif
    for (;;) {
        turns_.at(self).acquire();
        if (over_) {
            return;
        }
        if (on_turn_) {
            on_turn_(self);
        }
        parts_.at(self)();
        ended_.at(self) = true;
        steps_ = 0;
        waits_ = 0;
        const unsigned other = 1 - self;
        running_ = ended_.at(other) ? threads : other;
        (ended_.at(other) ? director_ : turns_.at(other)).release();
    }
}

std::size_t atomic_scheduler::perform(const std::array<part, threads>& parts, const schedule& order) {
    parts_ = parts;
    order_ = order;
    switched_ = 0;
    steps_ = 0;
    waits_ = 0;
    ended_ = {};
    steps_of_first_ = 0;
    has_died_ = false;
    running_ = order.first;
    turns_.at(order.first).release();
    director_.acquire();
    return switched_;
}

void atomic_scheduler::step(persist::site where) {
    if (running_ == threads || this_scheduler != this || paused_) {
        return;
    }
    waits_ = 0;
    const unsigned other = 1 - running_;
    if (running_ == 0 && order_.death != 0 && ++steps_of_first_ >= order_.death && !has_died_ && may_die(where)) {
        has_died_ = true;
        dead_ = true;
        ended_.at(0) = true;
        running_ = ended_.at(1) ? threads : 1;
        (ended_.at(1) ? director_ : turns_.at(1)).release();
        turns_.at(0).acquire();
        return;
    }
    if (switched_ < order_.switches.size() && ++steps_ == order_.switches[switched_] && !ended_.at(other)) {
        ++switched_;
        hand_on(running_);
    }
}

void atomic_scheduler::kill() {
    dead_ = false;
    turns_.at(0).release();
    director_.acquire();
}

void atomic_scheduler::wait_for_other() {
    constexpr unsigned forever = 1000000;
    if (running_ == threads || order_.ordinary_locks || paused_) {
        std::this_thread::yield();
        return;
    }
    if (++waits_ == forever) {
        std::fprintf(stderr, "two threads wait for each other, or one for the other that has ended\n");
        std::abort();
    }
    if (ended_.at(1 - running_)) {
        std::this_thread::yield();
    } else {
        hand_on(running_);
    }
}

/// The other thread begins, or continues behind its own hand_on().
void atomic_scheduler::hand_on(unsigned self) {
    const unsigned other = 1 - self;
    steps_ = 0;
    running_ = other;
    turns_.at(other).release();
    turns_.at(self).acquire();
    if (on_turn_) {
        on_turn_(self);
    }
}

}  // namespace holdfast::simulator
