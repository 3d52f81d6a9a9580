// Transactions and kill -9: threads of a process move money between accounts, replace blocks and sometimes change all
// accounts at once. The process is killed at any moment, and what it leaves is compared with what had returned. By
// hand: transaction_kill_test --cycles N --seed N.
//
// Oracle: the balances add up to 0; each thread's transactions are there up to the last one that returned, the one in
// flight perhaps, as a whole; no block but those that the heap leads to is allocated. In durability `commit`, the last
// one that a commit() has kept takes the place of the last one that returned. In `collect` words of the transactions in
// flight may be there and others not: blocks alone are compared, and their content.
#include <array>
#include <atomic>
#include <csignal>
#include <mutex>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <holdfast/transaction.hpp>

#include "kill/child_process.hpp"
#include "kill/cycles.hpp"

namespace holdfast::test {
namespace {

constexpr std::size_t account_count = 64;
constexpr std::size_t thread_count = 4;

struct account {
    std::int64_t balance = 0;
    std::uint64_t changes = 0;
};
struct note {
    std::uint64_t number = 0;
    std::uint64_t copies[9] = {};
};
/// What one thread has done.
struct ledger {
    std::uint64_t number = 0;   ///< of its last transaction
    std::uint64_t changes = 0;  ///< of accounts, in all of them
    ptr<note> last;             ///< written by some of them
};
struct bank {
    account accounts[account_count];
    ledger ledgers[thread_count];
};

struct progress {
    std::array<std::atomic<std::uint64_t>, thread_count> begun;
    std::array<std::atomic<std::uint64_t>, thread_count> returned;
    std::array<std::atomic<std::uint64_t>, thread_count> first;  ///< before this process
    std::atomic<std::uint64_t> committed;                        ///< of the first thread, in durability `commit`
    std::atomic<bool> runs;
    char problem[400];
    void reset() noexcept {
        for (std::size_t i = 0; i < thread_count; ++i) {
            begun[i] = returned[i] = first[i] = 0;
        }
        committed = 0;
        runs = false;
        problem[0] = 0;
    }
};

/// One thread of the process that is killed.
class teller {
public:
    teller(manager& heap, bank& all, std::array<std::mutex, account_count>& locks, std::size_t index,
           std::uint64_t seed)
        : heap_(heap), bank_(all), locks_(locks), own_(all.ledgers[index]), random_(seed + index) {}

    void work_once() {
        const std::uint64_t dice = random_() % 64;
        if (dice == 0) {
            change_all();
        } else {
            move(dice < 16);
        }
    }

private:
    void move(bool with_note) {
        const std::size_t a = random_() % account_count;
        const std::size_t b = (a + 1 + random_() % (account_count - 1)) % account_count;
        const auto amount = static_cast<std::int64_t>(random_() % 100);
        section tx(heap_, locks_[a], locks_[b]);
        pay(*tx, a, -amount);
        pay(*tx, b, amount);
        finish(*tx, 2, with_note);
        tx->commit();
    }
    /// More than half of a ring on the page cache.
    void change_all() {
        std::vector<std::unique_lock<std::mutex>> held;
        held.reserve(locks_.size());
        for (std::mutex& each : locks_) {  // in one order
            held.emplace_back(each);
        }
        transaction tx(heap_);
        for (std::size_t i = 0; i < account_count; ++i) {
            pay(tx, i, i % 2 == 0 ? 1 : -1);
        }
        finish(tx, account_count, true);
        tx.commit();
    }
    void pay(transaction& tx, std::size_t index, std::int64_t amount) {
        account& changed = tx.open(bank_.accounts[index]);
        changed.balance += amount;
        ++changed.changes;
    }
    void finish(transaction& tx, std::uint64_t changes, bool with_note) {
        ledger& mine = tx.open(own_);
        ++mine.number;
        mine.changes += changes;
        if (!with_note) {
            return;
        }
        if (mine.last != nullptr) {
            tx.destroy(mine.last.get());
        }
        note* const made = tx.make<note>();
        made->number = mine.number;
        std::fill(std::begin(made->copies), std::end(made->copies), mine.number);
        mine.last = made;
    }

    manager& heap_;
    bank& bank_;
    std::array<std::mutex, account_count>& locks_;
    ledger& own_;
    std::mt19937_64 random_;
};

open_options options_of(durability wanted, bool emulated) {
    open_options options;
    options.durability = wanted;
    options.commit_on_close = false;  // what is compared may be wrong
    options.accept_process_crash_only = true;
    options.segment_size = std::uint64_t{2} << 20U;
    options.reservation = std::uint64_t{1} << 30U;
    options.domain = emulated && wanted != durability::commit ? open_options::domain_choice::emulated
                                                              : open_options::domain_choice::detect;
    return options;
}

/// All others stand still while a heap is committed, so there is one thread.
[[noreturn]] void work_and_commit(manager& heap, teller works, progress& shown) {
    for (std::uint64_t i = 1;; ++i) {
        ++shown.begun[0];
        works.work_once();
        const std::uint64_t done = ++shown.returned[0];
        if (i % 32 == 0) {
            heap.commit();
            shown.committed = done;
        }
    }
}

int run_tellers(const std::string& path, durability kind, bool emulated, std::uint64_t seed, progress& shown) {
    try {
        open_options wanted = options_of(kind, emulated);
        wanted.check_transactions = seed % 4 == 0;
        manager heap(open_only, path, wanted);
        auto& all = *heap.find<bank>("bank").first;
        std::array<std::mutex, account_count> locks;
        for (std::size_t i = 0; i < thread_count; ++i) {
            shown.begun[i] = shown.returned[i] = shown.first[i] = all.ledgers[i].number;
        }
        shown.committed = shown.first[0].load();
        shown.runs = true;
        if (kind == durability::commit) {
            work_and_commit(heap, teller(heap, all, locks, 0, seed), shown);
        }
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < thread_count; ++i) {
            threads.emplace_back([&, i] {
                teller works(heap, all, locks, i, seed);
                for (;;) {
                    ++shown.begun[i];
                    works.work_once();
                    ++shown.returned[i];
                }
            });
        }
    } catch (const std::exception& failure) {
        fmt::format_to_n(&shown.problem[0], sizeof shown.problem - 1, "{}", failure.what());
    }
    return 1;
}

struct bank_tally {
    std::uint64_t cycles = 0;
    std::uint64_t heaps = 0;
    std::uint64_t transactions = 0;  ///< that returned
    std::uint64_t in_flight_after = 0;
    std::uint64_t in_flight_before = 0;
    std::uint64_t replayed = 0;
    void print(std::ostream& out, const std::string& title) const {
        out << title << ": " << cycles << " cycles on " << heaps << " heaps, " << transactions
            << " transactions returned; in flight: " << in_flight_before << " without effect, " << in_flight_after
            << " with; " << replayed << " words rewritten\n";
    }
};

class bank_watcher {
public:
    bank_watcher(std::string directory, durability wanted, std::uint64_t seed)
        : directory_(std::move(directory)), durability_(wanted), random_(seed) {}

    std::string next_heap() {
        if (!path_.empty()) {
            manager::remove(path_);
        }
        path_ = directory_ + "/bank" + std::to_string(tally_.heaps++);
        manager made(create_only, path_, options_of(durability_, false));
        made.construct<bank>("bank")();
        made.close(true);
        return {};
    }
    std::string cycle() {
        ++tally_.cycles;
        const bool emulated = random_() % 2 == 0;
        shown_->reset();
        {
            const std::uint64_t seed = random_();
            child_process worker([&] { return run_tellers(path_, durability_, emulated, seed, *shown_); });
            const bool runs = worker.runs_until([this] { return shown_->runs.load(); });
            static_cast<void>(worker.ends_within(random_() % 8'000'000));
            worker.kill();
            if (!runs || shown_->problem[0] != 0) {
                return "the worker failed: " + std::string(&shown_->problem[0]);
            }
        }
        try {
            const manager heap(open_only, path_, options_of(durability_, random_() % 2 == 0));
            tally_.replayed += heap.last_recovery().replayed;
            return compare(heap);
        } catch (const std::exception& failure) {
            return failure.what();
        }
    }
    [[nodiscard]] const bank_tally& numbers() const noexcept { return tally_; }

private:
    std::string compare(const manager& heap) {
        const bank& all = *heap.find<bank>("bank").first;
        std::int64_t sum = 0;
        std::uint64_t changes = 0;
        for (const account& each : all.accounts) {
            sum += each.balance;
            changes += each.changes;
        }
        std::uint64_t claimed = 0;
        std::uint64_t blocks = 1;
        for (std::size_t i = 0; i < thread_count; ++i) {
            const ledger& each = all.ledgers[i];
            const std::uint64_t returned = kept_of(i);
            // In `collect` the number may be of the transaction in flight, or still the one before.
            if (durability_ != durability::collect && (each.number < returned || each.number > shown_->begun[i])) {
                return fmt::format("thread {} has {} transactions; {} kept, {} begun", i, each.number, returned,
                                   shown_->begun[i].load());
            }
            tally_.transactions += returned - shown_->first[i];
            (each.number == returned ? tally_.in_flight_before : tally_.in_flight_after) += 1;
            claimed += each.changes;
            if (each.last != nullptr) {
                ++blocks;
                for (const std::uint64_t copy : each.last->copies) {
                    if (copy != each.last->number || copy > shown_->begun[i]) {
                        return fmt::format("thread {}: a note of {} says {}", i, each.last->number, copy);
                    }
                }
            }
        }
        if (durability_ != durability::collect && (sum != 0 || changes != claimed)) {
            return fmt::format("the balances add up to {}; {} changes of {}", sum, changes, claimed);
        }
        if (heap.statistics().allocated_blocks != blocks) {
            return fmt::format("{} blocks, expected {}", heap.statistics().allocated_blocks, blocks);
        }
        const std::vector<std::string> problems = heap.check(false);
        return problems.empty() ? std::string() : problems.front();
    }

    /// How many transactions of a thread must be there.
    [[nodiscard]] std::uint64_t kept_of(std::size_t thread) const {
        if (durability_ != durability::commit) {
            return shown_->returned[thread];
        }
        return thread == 0 ? shown_->committed.load() : shown_->first[thread].load();
    }

    std::string directory_;
    durability durability_;
    std::string path_;
    std::mt19937_64 random_;
    shared_memory<progress> shown_;
    bank_tally tally_;
};

void run(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    const bank_tally found = run_kills<bank_watcher>(parent, cycles, 120, durability::atomic, seed);
    expect_often(found.in_flight_after, cycles, 20);
    expect_often(found.in_flight_before, cycles, 4);
}

TEST(transaction_kill, leaves_whole_transactions_in_memory_file_system) {
    run(options().memory_directory, cycles_in_memory(), options().seed);
}

TEST(transaction_kill, leaves_whole_transactions_on_disk) {
    run(options().disk_directory, cycles_on_disk(), options().seed + 1);
}

TEST(transaction_kill, in_commit_leaves_what_was_committed) {
    const bank_tally found = run_kills<bank_watcher>(options().memory_directory, cycles_in_memory() / 3, 120,
                                                     durability::commit, options().seed + 2);
    expect_often(found.transactions, cycles_in_memory() / 3, 1);
}

TEST(transaction_kill, in_collect_leaves_the_blocks_that_are_reached_and_no_others) {
    const bank_tally found = run_kills<bank_watcher>(options().memory_directory, cycles_in_memory() / 3, 120,
                                                     durability::collect, options().seed + 3);
    expect_often(found.transactions, cycles_in_memory() / 3, 1);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 2000); }
