#include "simulator/atomic_stage.hpp"

#include <cstdio>
#include <cstdlib>

#include "base/thread_annotations.hpp"
#include "persist/mutant.hpp"

namespace holdfast::simulator {

namespace {

thread_local atomic_stage* this_stage = nullptr;

#if HOLDFAST_MUTANTS
void step_on_stage(persist::site /*where*/) { this_stage->step(); }
void wait_on_stage() noexcept { this_stage->wait_for_other(); }
#endif

}  // namespace

atomic_stage::atomic_stage() {
    for (unsigned i = 0; i < performers; ++i) {
        threads_.at(i) = std::thread([this, i] { work(i); });
    }
}

atomic_stage::~atomic_stage() {
    over_ = true;
    for (unsigned i = 0; i < performers; ++i) {
        turns_.at(i).release();
        threads_.at(i).join();
    }
}

void atomic_stage::work(unsigned self) {
    this_stage = this;
#if HOLDFAST_MUTANTS
    persist::set_step_function(step_on_stage);
    base::when_blocked = wait_on_stage;
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
        running_ = ended_.at(other) ? performers : other;
        (ended_.at(other) ? director_ : turns_.at(other)).release();
    }
}

std::size_t atomic_stage::perform(const std::array<part, performers>& parts, const schedule& order) {
    parts_ = parts;
    order_ = order;
    switched_ = 0;
    steps_ = 0;
    waits_ = 0;
    ended_ = {};
    steps_of_first_ = 0;
    running_ = order.first;
    turns_.at(order.first).release();
    director_.acquire();
    return switched_;
}

void atomic_stage::step() {
    if (running_ == performers || this_stage != this || paused_) {
        return;
    }
    waits_ = 0;
    const unsigned other = 1 - running_;
    if (running_ == 0 && order_.death != 0 && ++steps_of_first_ == order_.death) {
        dead_ = true;
        ended_.at(0) = true;
        running_ = ended_.at(1) ? performers : 1;
        (ended_.at(1) ? director_ : turns_.at(1)).release();
        turns_.at(0).acquire();
        return;
    }
    if (switched_ < order_.switches.size() && ++steps_ == order_.switches[switched_] && !ended_.at(other)) {
        ++switched_;
        hand_on(running_);
    }
}

void atomic_stage::bury() {
    dead_ = false;
    turns_.at(0).release();
    director_.acquire();
}

void atomic_stage::wait_for_other() {
    constexpr unsigned forever = 1000000;
    if (running_ == performers || order_.ordinary_locks || paused_) {
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
void atomic_stage::hand_on(unsigned self) {
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
