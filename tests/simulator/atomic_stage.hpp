// Two threads that run one at a time, in an order that the test decides: real threads, for each must have its own lane
// and its own cache, that hand a baton to each other.
//
// A thread may be made to hand on the baton at each step of its domain, and at each HF_MUTANT that it meets. Who would
// have to wait for a lock, or for room in a ring, hands it on too; so does who ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <semaphore>
#include <thread>
#include <vector>

namespace holdfast::simulator {

/// Who begins, and after how many steps each he who runs is made to hand on the baton.
struct schedule {
    unsigned first = 0;
    std::vector<unsigned> switches;
    /// Performer 0 dies at its step of this number: it never goes on, until bury(). 0: nobody dies.
    unsigned death = 0;
    /// Locks are waited for as ever: those that other tests hold, too, would upset the order.
    bool ordinary_locks = false;
};

class atomic_stage {
public:
    static constexpr unsigned performers = 2;
    using part = std::function<void()>;

    atomic_stage();
    atomic_stage(const atomic_stage&) = delete;
    atomic_stage& operator=(const atomic_stage&) = delete;
    ~atomic_stage();

    /// Lets the part of the dead one run to its end; nothing that it does may count any more.
    void bury();
    [[nodiscard]] bool has_dead() const noexcept { return dead_; }
    /// Runs both parts to their ends. How many of the switches came about: less than all, where a thread ended before.
    std::size_t perform(const std::array<part, performers>& parts, const schedule& order);
    /// Who runs; for `on_turn`, which is called whenever that changes.
    void set_on_turn(std::function<void(unsigned)> call) { on_turn_ = std::move(call); }
    /// A step of the running thread. Does nothing while nobody performs.
    void step();
    /// While images are looked at, nobody hands on the baton.
    void pause(bool on) noexcept { paused_ = on; }
    /// The running thread cannot go on before the other does.
    void wait_for_other();

private:
    void work(unsigned self);
    void hand_on(unsigned self);

    std::array<part, performers> parts_;
    schedule order_;
    std::size_t switched_ = 0;
    unsigned steps_ = 0;  ///< since the last switch
    unsigned running_ = performers;
    unsigned waits_ = 0;  ///< in a row
    std::array<bool, performers> ended_{};
    unsigned steps_of_first_ = 0;
    bool dead_ = false;
    bool paused_ = false;
    bool over_ = false;
    std::function<void(unsigned)> on_turn_;
    std::binary_semaphore director_{0};
    std::array<std::binary_semaphore, performers> turns_{std::binary_semaphore{0}, std::binary_semaphore{0}};
    std::array<std::thread, performers> threads_;
};

}  // namespace holdfast::simulator
