// A bank in a heap, for tests that kill its process or take its power: threads move money between accounts in
// transactions, replace blocks, and sometimes change all accounts at once. Afterwards what is left is compared with
// what had returned.
//
// Oracle: the balances add up to 0; each thread's transactions are there up to the last one that returned, the one in
// flight perhaps, as a whole; no block but those that the heap leads to is allocated. In durability `commit`, the last
// one that a commit() has kept takes the place of the last one that returned. In `collect` words of the transactions in
// flight may be there and others not: blocks alone are compared, and their content.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include <holdfast/manager.hpp>

#include "base/process_test_support.hpp"

namespace holdfast::test {

inline constexpr std::size_t bank_threads = 4;

/// What the tellers tell the watcher, in memory that both have.
struct bank_progress {
    std::array<std::atomic<std::uint64_t>, bank_threads> begun;
    std::array<std::atomic<std::uint64_t>, bank_threads> returned;
    std::array<std::atomic<std::uint64_t>, bank_threads> first;  ///< before this process
    std::atomic<std::uint64_t> committed;                        ///< of the first thread, in durability `commit`
    std::atomic<bool> runs;
    std::atomic<std::uint64_t> refused;  ///< transactions that failed because a sync had failed
    char problem[400];
    void reset() noexcept;
};

struct bank_tally {
    std::uint64_t cycles = 0;
    std::uint64_t heaps = 0;
    std::uint64_t transactions = 0;  ///< that returned
    std::uint64_t in_flight_after = 0;
    std::uint64_t in_flight_before = 0;
    std::uint64_t replayed = 0;
    std::uint64_t refused = 0;
    void print(std::ostream& out, const std::string& title) const;
};

class bank_watcher {
public:
    using domain_choice = open_options::domain_choice;

    /// Each cycle opens the heap in one of the domains.
    bank_watcher(std::string directory, durability wanted, std::uint64_t seed, std::vector<domain_choice> domains);

    /// Cycles end with a loss of power: `fail` lets it happen while the tellers work, `restore` comes after their end.
    void use_power_loss(std::function<void()> fail, std::function<void()> restore);

    std::string next_heap();
    std::string cycle();
    [[nodiscard]] const bank_tally& numbers() const noexcept { return tally_; }

private:
    [[nodiscard]] domain_choice any_domain() { return domains_[random_() % domains_.size()]; }
    std::string end_tellers();
    std::string compare(const manager& heap);
    /// How many transactions of a thread must be there.
    [[nodiscard]] std::uint64_t kept_of(std::size_t thread) const;

    std::string directory_;
    durability durability_;
    std::string path_;
    std::mt19937_64 random_;
    std::vector<domain_choice> domains_;
    std::function<void()> fail_power_;
    std::function<void()> restore_power_;
    base::shared_memory<bank_progress> shown_;
    bank_tally tally_;
};

}  // namespace holdfast::test
