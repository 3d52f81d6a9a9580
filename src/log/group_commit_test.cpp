// Every order in which threads take the steps of a group commit, with a bounded number of preemptions. A step is an
// access to an atomic. Threads that all sleep are a lost wakeup.
#include "log/group_commit.hpp"

#include <array>
#include <functional>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::log {
namespace {

/// Runs one thread at a time, as the choices say.
class stepper {
public:
    static constexpr unsigned threads = 3;
    static constexpr unsigned nobody = threads;

    /// Which of the runnable threads goes on, the running one first. Choices beyond the end are 0.
    std::vector<unsigned> choices;
    std::vector<unsigned> alternatives;  ///< of each choice
    unsigned preemptions = 0;
    unsigned allowed_preemptions = 0;
    bool is_stuck = false;
    int time = 0;             ///< in steps
    bool has_waited = false;  ///< a leader, for others

    void run(const std::array<std::function<void()>, threads>& parts) {
        states_.fill(state::runnable);
        std::vector<std::thread> running;
        for (unsigned self = 0; self < threads; ++self) {
            running.emplace_back([&, self] {
                own_ = self;
                now = this;
                turns_.at(self).acquire();
                parts.at(self)();
                states_.at(self) = state::ended;
                hand_on(self);
            });
        }
        turns_.at(choose(nobody)).release();
        for (std::thread& each : running) {
            each.join();
        }
    }

    void step() {
        if (!is_stuck) {
            ++time;
            hand_on(own_);
        }
    }
    /// Until notify().
    void wait_for_notification() {
        if (!is_stuck) {
            states_.at(own_) = state::asleep;
            hand_on(own_);
        }
    }
    void notify() {
        for (state& each : states_) {
            each = each == state::asleep ? state::runnable : each;
        }
    }

    static thread_local stepper* now;

private:
    enum class state { runnable, asleep, ended };

    void hand_on(unsigned self) {
        const unsigned next = choose(self);
        if (next == self || next == nobody) {
            return;
        }
        const bool has_ended = states_.at(self) == state::ended;
        turns_.at(next).release();
        if (!has_ended) {
            turns_.at(self).acquire();
        }
    }

    unsigned choose(unsigned self) {
        std::vector<unsigned> able;
        const bool goes_on = self != nobody && states_.at(self) == state::runnable;
        if (goes_on) {
            able.push_back(self);
        }
        for (unsigned each = 0; each < threads && (!goes_on || preemptions < allowed_preemptions); ++each) {
            if (each != self && states_.at(each) == state::runnable) {
                able.push_back(each);
            }
        }
        if (able.empty()) {
            return wake_all_if_stuck(self);
        }
        const std::size_t at = alternatives.size();
        const unsigned chosen = at < choices.size() ? choices[at] : 0;
        choices.resize(std::max(choices.size(), at + 1));
        alternatives.push_back(static_cast<unsigned>(able.size()));
        preemptions += goes_on && chosen != 0 ? 1 : 0;
        return able.at(chosen);
    }

    /// The threads then run to their ends in any order, and what they find does not count.
    unsigned wake_all_if_stuck(unsigned self) {
        bool one_sleeps = false;
        for (unsigned each = 0; each < threads; ++each) {
            if (states_.at(each) == state::asleep) {
                one_sleeps = true;
                states_.at(each) = state::runnable;
                if (each != self) {
                    turns_.at(each).release();
                }
            }
        }
        is_stuck = is_stuck || one_sleeps;
        return nobody;
    }

    static thread_local unsigned own_;
    std::array<state, threads> states_{};
    std::array<std::binary_semaphore, threads> turns_{std::binary_semaphore{0}, std::binary_semaphore{0},
                                                      std::binary_semaphore{0}};
};
thread_local stepper* stepper::now = nullptr;
thread_local unsigned stepper::own_ = 0;

struct stepped_synchronisation {
    template <class T>
    class atomic {
    public:
        atomic(T value) : value_(value) {}  // NOLINT(google-explicit-constructor): as std::atomic
        T load(std::memory_order /*order*/) const {
            before();
            return value_.load();
        }
        void store(T value, std::memory_order /*order*/) {
            before();
            value_.store(value);
        }
        T exchange(T value, std::memory_order /*order*/) {
            before();
            return value_.exchange(value);
        }
        T fetch_add(T value, std::memory_order /*order*/) {
            before();
            return value_.fetch_add(value);
        }
        void notify_all() const {
            before();
            if (stepper::now != nullptr) {
                stepper::now->notify();
            }
        }

    private:
        static void before() {
            if (stepper::now != nullptr) {
                stepper::now->step();
            }
        }
        std::atomic<T> value_;
    };
    using duration = int;
    [[nodiscard]] static int now() { return stepper::now == nullptr ? 0 : stepper::now->time; }
    [[nodiscard]] static bool has_time_until(int latest) {
        stepper::now->has_waited = true;
        stepper::now->step();
        return now() < latest && !stepper::now->is_stuck;
    }
    /// As std::atomic::wait: no thread sleeps where the word has changed already.
    static void wait(const atomic<std::uint32_t>& word, std::uint32_t while_it_is) {
        while (word.load(std::memory_order_acquire) == while_it_is && !stepper::now->is_stuck) {
            stepper::now->wait_for_notification();
        }
    }
};

struct found {
    std::uint64_t orders = 0;
    std::uint64_t with_waits = 0;  ///< orders in which a leader waits for those whom it served last
    bool stuck = false;
    std::string wrong;
    std::uint64_t longest = 0;
};

/// Thread i appends `records` times and waits. A write takes a step in its middle; write number `fails` fails.
class world {
public:
    world(unsigned records, unsigned fails) : records_(records), fails_(fails) {}

    void run(stepper& order) {
        std::array<std::function<void()>, stepper::threads> parts;
        parts.fill([this, &order] { part(order); });
        order.run(parts);
    }
    std::string wrong;

private:
    void part(stepper& order) {
        for (unsigned i = 0; i < records_; ++i) {
            const std::uint64_t own = ++appended_;
            const bool durable = commit_.wait(own, [&]() -> std::optional<std::uint64_t> {
                if (std::exchange(writing_, true)) {
                    wrong = "two write at once";
                }
                const std::uint64_t end = appended_;
                order.step();
                writing_ = false;
                if (++writes_ == fails_) {
                    has_failed_ = true;
                    return {};
                }
                if (has_failed_) {
                    wrong = "a write behind a failed one";
                }
                on_media_ = end;
                return end;
            });
            if (order.is_stuck) {
                return;
            }
            if (durable && on_media_ < own) {
                wrong = "acknowledged, and not durable";
            }
            if (!durable && !has_failed_) {
                wrong = "refused, and nothing has failed";
            }
        }
    }

    unsigned records_;
    unsigned fails_;
    std::uint64_t appended_ = 0;
    std::uint64_t on_media_ = 0;
    unsigned writes_ = 0;
    bool writing_ = false;
    bool has_failed_ = false;
    group_commit<stepped_synchronisation> commit_{0};
};

found run_all(unsigned records, unsigned fails, unsigned preemptions) {
    found all;
    std::vector<unsigned> choices;
    for (;;) {
        stepper order;
        order.choices = choices;
        order.allowed_preemptions = preemptions;
        world one(records, fails);
        one.run(order);
        ++all.orders;
        all.with_waits += order.has_waited ? 1 : 0;
        all.stuck = all.stuck || order.is_stuck;
        all.longest = std::max<std::uint64_t>(all.longest, order.alternatives.size());
        if (!one.wrong.empty()) {
            all.wrong = one.wrong;
            return all;
        }
        if (all.stuck) {
            return all;
        }
        choices = order.choices;
        choices.resize(order.alternatives.size());
        while (!choices.empty() && choices.back() + 1 == order.alternatives[choices.size() - 1]) {
            choices.pop_back();
        }
        if (choices.empty()) {
            return all;
        }
        ++choices.back();
    }
}

TEST(group_commit, in_every_order_each_thread_is_served_and_none_sleeps_for_ever) {
    for (const auto& [records, preemptions] : {std::pair{1U, 2U}, std::pair{2U, 1U}}) {
        const found all = run_all(records, 0, preemptions);
        EXPECT_FALSE(all.stuck);
        EXPECT_EQ(all.wrong, "");
        EXPECT_GT(all.orders, 100U);
        EXPECT_GT(all.with_waits, 0U);
        std::printf("%llu orders of up to %llu steps, in %llu of them a leader waits\n",
                    static_cast<unsigned long long>(all.orders), static_cast<unsigned long long>(all.longest),
                    static_cast<unsigned long long>(all.with_waits));
    }
}

TEST(group_commit, in_every_order_nothing_is_acknowledged_behind_a_failed_write) {
    for (const unsigned fails : {1U, 2U}) {
        const found all = run_all(2, fails, 1);
        EXPECT_FALSE(all.stuck);
        EXPECT_EQ(all.wrong, "");
    }
}

#if HOLDFAST_MUTANTS
TEST(group_commit, a_round_that_ends_before_the_lead_is_given_up_leaves_a_thread_asleep) {
    const persist::mutant_selection wrong("log.group.round_first");
    EXPECT_TRUE(run_all(1, 0, 2).stuck);
}

TEST(group_commit, a_failed_write_that_is_not_remembered_is_noticed) {
    const persist::mutant_selection wrong("log.group.failure");
    EXPECT_NE(run_all(2, 1, 1).wrong, "");
}
#endif

}  // namespace
}  // namespace holdfast::log
