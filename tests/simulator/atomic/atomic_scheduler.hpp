// Runs two real threads one at a time, in an order that the test decides; each has its own lane and cache.
//
// The running thread may be made to switch at each step of its domain and at each HF_MUTANT. A thread also switches
// where it would wait for a lock or for room in a ring, and when it ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <semaphore>
#include <thread>
#include <vector>

#include "persist/storage.hpp"

namespace holdfast::simulator {

/// Which thread begins, and after how many steps each thread in turn is made to switch.
struct schedule {
    unsigned first = 0;
    std::vector<unsigned> switches;
    /// Thread 0 stops at this step until kill(). 0: it does not die.
    unsigned death = 0;
    /// Wait for locks in the ordinary way. Locks shared with other tests would disturb the order.
    bool ordinary_locks = false;
};

class atomic_scheduler {
public:
    static constexpr unsigned threads = 2;
    using part = std::function<void()>;

    atomic_scheduler();
    atomic_scheduler(const atomic_scheduler&) = delete;
    atomic_scheduler& operator=(const atomic_scheduler&) = delete;
    ~atomic_scheduler();

    /// Runs the dead thread's part to its end; its effects must not count.
    void kill();
    [[nodiscard]] bool has_dead() const noexcept { return dead_; }
    /// Runs both parts to their ends. Returns how many switches happened: fewer than all if a thread ended first.
    std::size_t perform(const std::array<part, threads>& parts, const schedule& order);
    /// `call` hears which thread runs whenever that changes.
    void set_on_turn(std::function<void(unsigned)> call) { on_turn_ = std::move(call); }
    /// A step of the running thread. No effect outside perform().
    void step(persist::site where);
    /// No switches while an image is examined.
    void pause(bool on) noexcept { paused_ = on; }
    /// The running thread cannot continue before the other does.
    void wait_for_other();

private:
    void work(unsigned self);
    void hand_on(unsigned self);

    std::array<part, threads> parts_;
    schedule order_;
    std::size_t switched_ = 0;
    unsigned steps_ = 0;  ///< since the last switch
    unsigned running_ = threads;
    unsigned waits_ = 0;  ///< in a row
    std::array<bool, threads> ended_{};
    unsigned steps_of_first_ = 0;
    bool dead_ = false;
    bool has_died_ = false;
    bool paused_ = false;
    bool over_ = false;
    std::function<void(unsigned)> on_turn_;
    std::binary_semaphore director_{0};
    std::array<std::binary_semaphore, threads> turns_{std::binary_semaphore{0}, std::binary_semaphore{0}};
    std::array<std::thread, threads> threads_;
};

}  // namespace holdfast::simulator
