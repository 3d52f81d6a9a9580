#include "interleavings/explorer.hpp"

#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

namespace holdfast::interleavings {

namespace {

thread_local std::size_t own_number = 0;

void yield_to_others() noexcept { static_cast<explorer*>(base::this_interleaving)->yield(); }

}  // namespace

explorer::explorer() {
    for (std::size_t i = 0; i < most_threads; ++i) {
        turns_.push_back(std::make_unique<std::binary_semaphore>(0));
    }
    for (std::size_t i = 0; i < most_threads; ++i) {
        workers_.emplace_back([this, i] { work(i); });
    }
}

explorer::~explorer() {
    over_ = true;
    for (std::size_t i = 0; i < most_threads; ++i) {
        turns_[i]->release();
        workers_[i].join();
    }
}

void explorer::work(std::size_t self) {
    own_number = self;
    for (;;) {
        turns_[self]->acquire();
        if (over_) {
            return;
        }
        base::this_interleaving = this;
        base::when_blocked = yield_to_others;
        subject_->run(self);
        base::this_interleaving = nullptr;
        base::when_blocked = nullptr;
        if (all_[self].is == state::dead) {  // the run is over
            director_.release();
            continue;
        }
        all_[self].is = state::ended;
        hand_on(self);
    }
}

/// The order that was tried last comes after all that begin as it does.
bool explorer::next_order() noexcept {
    while (!order_.empty() && order_.back().taken + 1 == order_.back().options) {
        order_.pop_back();
    }
    if (order_.empty()) {
        return false;
    }
    ++order_.back().taken;
    return true;
}

unsigned explorer::choose(unsigned options) noexcept {
    if (options < 2 || is_free_) {
        return 0;
    }
    if (at_ == order_.size()) {
        order_.push_back({0, options});
    }
    return order_[at_++].taken;
}

void explorer::find(const std::string& what) {
    if (problem_.empty()) {
        problem_ = what + ", in the order";
        for (std::size_t i = 0; i < at_; ++i) {
            problem_ += " " + std::to_string(order_[i].taken) + "/" + std::to_string(order_[i].options);
        }
    }
    is_free_ = true;
}

void explorer::step() noexcept {
    const std::size_t self = own_number;
    ++steps_;
    constexpr std::uint64_t too_many = 1'000'000;
    if (steps_ == too_many) {
        std::fprintf(stderr, "a run does not end\n");
        std::abort();
    }
    if (self == 0 && limits_.death != 0 && all_[0].is != state::dead && ++steps_of_first_ == limits_.death) {
        all_[0].is = state::dead;
        has_died_ = true;
        subject_->died(0);
        hand_on(0);
        return;
    }
    if (all_[self].is == state::dead || preempted_ == limits_.preemptions) {
        return;
    }
    unsigned others = 0;
    for (std::size_t i = 0; i < threads_; ++i) {
        others += i != self && all_[i].is == state::ready ? 1U : 0U;
    }
    unsigned chosen = choose(others + 1);
    if (chosen == 0) {
        return;
    }
    ++preempted_;
    for (std::size_t i = 0; i < threads_; ++i) {
        if (i != self && all_[i].is == state::ready && --chosen == 0) {
            running_ = i;
            turns_[i]->release();
            turns_[self]->acquire();
            return;
        }
    }
}

void explorer::fall_asleep(const void* address, bool has_limit) noexcept {
    if (all_[own_number].is == state::dead) {
        std::this_thread::yield();
        return;
    }
    all_[own_number] = {state::asleep, address, has_limit};
    hand_on(own_number);
}

void explorer::wake(const void* address, bool all) noexcept {
    step();
    for (std::size_t i = 0; i < threads_; ++i) {
        if (all_[i].is == state::asleep && all_[i].address == address) {
            all_[i].is = state::ready;
            if (!all) {
                return;
            }
        }
    }
}

void explorer::yield() noexcept {
    if (all_[own_number].is == state::dead) {
        std::this_thread::yield();
        return;
    }
    all_[own_number].is = state::yielded;
    hand_on(own_number);
}

/// Nobody can run. A sleep with a limit ends by itself, which hides no lost wake-up: that is a fault unless somebody
/// died.
void explorer::let_time_pass() noexcept {
    bool any = false;
    for (std::size_t i = 0; i < threads_; ++i) {
        if (all_[i].is == state::asleep && (is_free_ || (all_[i].has_limit && has_died_))) {
            all_[i].is = state::ready;
            any = true;
        }
    }
    if (!any) {
        find("all threads sleep");
        for (std::size_t i = 0; i < threads_; ++i) {
            all_[i].is = all_[i].is == state::asleep ? state::ready : all_[i].is;
        }
    }
}

std::optional<std::size_t> explorer::find_next(std::size_t self) noexcept {
    for (int attempt = 0; attempt < 3; ++attempt) {
        unsigned ready = 0;
        unsigned left = 0;
        bool yields = false;
        for (std::size_t i = 0; i < threads_; ++i) {
            ready += all_[i].is == state::ready ? 1U : 0U;
            left += all_[i].is != state::ended && all_[i].is != state::dead ? 1U : 0U;
            yields = yields || all_[i].is == state::yielded;
        }
        if (ready != 0) {
            unsigned chosen = choose(ready);
            for (std::size_t i = 0;; ++i) {
                if (all_[i].is == state::ready && chosen-- == 0) {
                    return i;
                }
            }
        }
        if (left == 0) {
            return std::nullopt;
        }
        if (yields) {  // each looks again, unless that led nowhere before
            constexpr unsigned patience = 100;
            idle_turns_ = steps_ - steps_at_yield_ > 100 ? 0 : idle_turns_ + 1;
            steps_at_yield_ = steps_;
            for (std::size_t i = 0; i < threads_; ++i) {
                all_[i].is = all_[i].is == state::yielded ? state::ready : all_[i].is;
            }
            if (idle_turns_ < patience) {
                continue;
            }
            idle_turns_ = 0;
        }
        let_time_pass();
    }
    return self;
}

void explorer::hand_on(std::size_t self) noexcept {
    const bool is_over = all_[self].is == state::ended;
    const std::optional<std::size_t> next = find_next(self);
    if (!next) {
        running_ = most_threads;
        director_.release();
    } else if (*next == self) {
        return;
    } else {
        running_ = *next;
        turns_[*next]->release();
    }
    if (!is_over) {
        turns_[self]->acquire();
    }
}

void explorer::run_once(subject& one) {
    subject_ = &one;
    threads_ = one.threads();
    preempted_ = 0;
    steps_of_first_ = 0;
    steps_ = 0;
    steps_at_yield_ = 0;
    idle_turns_ = 0;
    at_ = 0;
    has_died_ = false;
    is_free_ = false;
    for (std::size_t i = 0; i < threads_; ++i) {
        all_[i] = {state::ready, nullptr, false};
    }
    running_ = find_next(0).value_or(0);
    turns_[running_]->release();
    director_.acquire();
    if (std::string what = one.problem(); !what.empty()) {
        find(what);
    }
    if (has_died_) {  // its thread must end
        turns_[0]->release();
        director_.acquire();
    }
}

report explorer::explore(const std::function<std::unique_ptr<subject>()>& make, const limits& within) {
    report found;
    limits_ = within;
    order_.clear();
    problem_.clear();
    do {
        const std::unique_ptr<subject> one = make();
        run_once(*one);
        ++found.runs;
        found.has_died = has_died_;
        found.is_complete = problem_.empty() && !next_order();
    } while (problem_.empty() && !found.is_complete && found.runs < within.runs);
    found.problem = problem_;
    return found;
}

unsigned more_preemptions() {
    const char* const text = std::getenv("HOLDFAST_PREEMPTIONS");
    return text == nullptr ? 0 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

void expect_right(const std::function<std::unique_ptr<subject>()>& make, const limits& within) {
    explorer runs;
    limits now = within;
    now.preemptions += more_preemptions();
    std::uint64_t all = 0;
    for (bool goes_on = true; goes_on; now.death += now.death == 0 ? 0 : 1) {
        const report found = runs.explore(make, now);
        all += found.runs;
        ASSERT_EQ(found.problem, "") << "thread 0 dies at step " << now.death;
        ASSERT_TRUE(found.is_complete) << "more than " << now.runs << " orders";
        goes_on = found.has_died;
    }
    std::printf("%llu orders\n", static_cast<unsigned long long>(all));
}

std::string find_fault(const std::function<std::unique_ptr<subject>()>& make, const limits& within) {
    explorer runs;
    limits now = within;
    for (bool goes_on = true; goes_on; now.death += now.death == 0 ? 0 : 1) {
        const report found = runs.explore(make, now);
        if (!found.problem.empty()) {
            return found.problem;
        }
        goes_on = found.has_died;
    }
    return {};
}

}  // namespace holdfast::interleavings
