// Runs real threads one at a time, in every order with at most so many preemptions: a thread may be stopped before each
// operation on a base::atomic, and sleeps until it is woken, as the kernel lets it. So a wake-up that is lost is found:
// nobody can run then. Memory is sequentially consistent here.
//
// After: M. Musuvathi, S. Qadeer, "Iterative context bounding for systematic testing of multithreaded programs", 2007.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "base/atomic.hpp"

namespace holdfast::interleavings {

/// What one run is about; made anew for each.
class subject {
public:
    subject() = default;
    subject(const subject&) = delete;
    subject& operator=(const subject&) = delete;
    virtual ~subject() = default;
    [[nodiscard]] virtual std::size_t threads() const = 0;
    virtual void run(std::size_t thread) = 0;
    /// After all have ended: what is wrong, or nothing.
    [[nodiscard]] virtual std::string problem() = 0;
    /// The thread stopped for good.
    virtual void died(std::size_t /*thread*/) {}
};

struct limits {
    unsigned preemptions = 2;
    std::uint64_t runs = 20'000'000;  ///< then the exploration ends
    /// Thread 0 stops for good at this step. 0: it does not. Where somebody dies, sleepers wake by themselves.
    unsigned death = 0;
};

struct report {
    std::uint64_t runs = 0;
    bool is_complete = false;
    bool has_died = false;  ///< in the last run
    std::string problem;    ///< of the first run that had one
};

class explorer final : public base::interleaving {
public:
    static constexpr std::size_t most_threads = 4;

    explorer();
    ~explorer() override;

    [[nodiscard]] report explore(const std::function<std::unique_ptr<subject>()>& make, const limits& within);

    void step() noexcept override;
    void fall_asleep(const void* address, bool has_limit) noexcept override;
    void wake(const void* address, bool all) noexcept override;
    /// The thread looks again when another has gone on.
    void yield() noexcept;

private:
    enum class state { ready, asleep, yielded, dead, ended };
    struct thread_of_run {
        state is = state::ended;
        const void* address = nullptr;
        bool has_limit = false;
    };
    /// Where the order could have been another.
    struct choice {
        unsigned taken;
        unsigned options;
    };

    void work(std::size_t self);
    void run_once(subject& one);
    void find(const std::string& what);
    [[nodiscard]] unsigned choose(unsigned options) noexcept;
    [[nodiscard]] bool next_order() noexcept;
    [[nodiscard]] std::optional<std::size_t> find_next(std::size_t self) noexcept;
    void hand_on(std::size_t self) noexcept;
    void let_time_pass() noexcept;

    std::array<thread_of_run, most_threads> all_;
    std::size_t threads_ = 0;
    std::size_t running_ = 0;
    limits limits_;
    unsigned preempted_ = 0;
    unsigned steps_of_first_ = 0;
    std::uint64_t steps_ = 0;
    std::uint64_t steps_at_yield_ = 0;
    unsigned idle_turns_ = 0;
    bool over_ = false;
    bool is_free_ = false;  ///< the run failed, and ends in any order
    bool has_died_ = false;
    std::string problem_;
    std::vector<choice> order_;
    std::size_t at_ = 0;
    subject* subject_ = nullptr;
    std::binary_semaphore director_{0};
    std::vector<std::unique_ptr<std::binary_semaphore>> turns_;
    std::vector<std::thread> workers_;
};

/// HOLDFAST_PREEMPTIONS: how many more than the short form of a test has.
[[nodiscard]] unsigned more_preemptions();
/// Fails the calling test unless all orders within the limits are right.
void expect_right(const std::function<std::unique_ptr<subject>()>& make, const limits& within);
/// For a mutant: what was found first; empty: nothing.
[[nodiscard]] std::string find_fault(const std::function<std::unique_ptr<subject>()>& make, const limits& within);

}  // namespace holdfast::interleavings
