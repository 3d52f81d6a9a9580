#include "kill/bank.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <holdfast/transaction.hpp>

namespace holdfast::test {
namespace {

constexpr std::size_t account_count = 64;
constexpr std::size_t thread_count = bank_threads;

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

    /// Several transactions between two accounts, durable by one sync, under the same locks.
    void work_later(std::uint64_t count) {
        const std::size_t a = random_() % account_count;
        const std::size_t b = (a + 1 + random_() % (account_count - 1)) % account_count;
        const std::scoped_lock held(locks_[a], locks_[b]);
        ticket last;
        for (std::uint64_t i = 0; i < count; ++i) {
            const auto amount = static_cast<std::int64_t>(random_() % 100);
            last = heap_.transact_later([&](transaction& tx) {
                pay(tx, a, -amount);
                pay(tx, b, amount);
                finish_by_words(tx, 2, i % 3 == 0);
            });
        }
        if (random_() % 2 == 0) {
            heap_.sync(last);
        } else {
            heap_.sync();  // what other threads have waiting, too
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
        if (with_note) {
            mine.last = replace_note(tx, mine.last.get(), mine.number);
        }
    }
    /// As finish(), by words: where objects with pointers wait for a sync, open() makes it.
    void finish_by_words(transaction& tx, std::uint64_t changes, bool with_note) {
        const std::uint64_t number = tx.load(own_.number) + 1;
        tx.store(own_.number, number);
        tx.store(own_.changes, tx.load(own_.changes) + changes);
        if (with_note) {
            tx.store(own_.last, replace_note(tx, tx.load(own_.last), number));
        }
    }
    static note* replace_note(transaction& tx, note* old, std::uint64_t number) {
        tx.free(old);
        note* const made = tx.make<note>();
        made->number = number;
        std::fill(std::begin(made->copies), std::end(made->copies), number);
        return made;
    }

    manager& heap_;
    bank& bank_;
    std::array<std::mutex, account_count>& locks_;
    ledger& own_;
    std::mt19937_64 random_;
};

open_options options_of(durability wanted, open_options::domain_choice domain) {
    open_options options;
    options.durability = wanted;
    options.commit_on_close = false;  // what is compared may be wrong
    options.accept_process_crash_only = true;
    options.segment_size = std::uint64_t{2} << 20U;
    options.reservation = std::uint64_t{1} << 30U;
    options.domain = wanted == durability::commit ? open_options::domain_choice::detect : domain;
    return options;
}

/// Until the process is killed, or a sync has failed.
void work(teller& works, std::size_t index, bank_progress& shown) {
    try {
        for (std::uint64_t round = 1;; ++round) {
            const std::uint64_t together = round % 4 == 0 ? round / 4 % 8 + 1 : 1;
            shown.begun[index] += together;
            if (together == 1) {
                works.work_once();
            } else {
                works.work_later(together);
            }
            shown.returned[index] += together;
        }
    } catch (const error& failure) {
        if (failure.code() == errc::poisoned) {
            ++shown.refused;
        } else {
            fmt::format_to_n(&shown.problem[0], sizeof shown.problem - 1, "{}", failure.what());
        }
    }
}

/// All others stand still while a heap is committed, so there is one thread.
[[noreturn]] void work_and_commit(manager& heap, teller works, bank_progress& shown) {
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

int run_tellers(const std::string& path, open_options wanted, std::uint64_t seed, bank_progress& shown) {
    try {
        wanted.check_transactions = seed % 4 == 0;
        manager heap(open_only, path, wanted);
        auto& all = *heap.find<bank>("bank").first;
        std::array<std::mutex, account_count> locks;
        for (std::size_t i = 0; i < thread_count; ++i) {
            shown.begun[i] = shown.returned[i] = shown.first[i] = all.ledgers[i].number;
        }
        shown.committed = shown.first[0].load();
        shown.runs = true;
        if (wanted.durability == durability::commit) {
            work_and_commit(heap, teller(heap, all, locks, 0, seed), shown);
        }
        {
            std::vector<std::jthread> threads;
            for (std::size_t i = 0; i < thread_count; ++i) {
                threads.emplace_back([&, i] {
                    teller works(heap, all, locks, i, seed);
                    work(works, i, shown);
                });
            }
        }
        heap.close(false);
    } catch (const std::exception& failure) {
        fmt::format_to_n(&shown.problem[0], sizeof shown.problem - 1, "{}", failure.what());
    }
    return 1;
}

}  // namespace

void bank_progress::reset() noexcept {
    for (std::size_t i = 0; i < thread_count; ++i) {
        begun[i] = returned[i] = first[i] = 0;
    }
    committed = 0;
    runs = false;
    refused = 0;
    problem[0] = 0;
}

void bank_tally::print(std::ostream& out, const std::string& title) const {
    out << title << ": " << cycles << " cycles on " << heaps << " heaps, " << transactions
        << " transactions returned; in flight: " << in_flight_before << " without effect, " << in_flight_after
        << " with; " << replayed << " words rewritten; " << refused << " refused after a failed sync\n";
}

bank_watcher::bank_watcher(std::string directory, durability wanted, std::uint64_t seed,
                           std::vector<domain_choice> domains)
    : directory_(std::move(directory)), durability_(wanted), random_(seed), domains_(std::move(domains)) {}

void bank_watcher::use_power_loss(std::function<void()> fail, std::function<void()> restore) {
    fail_power_ = std::move(fail);
    restore_power_ = std::move(restore);
}

std::string bank_watcher::next_heap() {
    if (!path_.empty()) {
        manager::remove(path_);
    }
    path_ = directory_ + "/bank" + std::to_string(tally_.heaps++);
    manager made(create_only, path_, options_of(durability_, domains_.front()));
    made.construct<bank>("bank")();
    made.close(true);
    if (fail_power_) {  // the name of the heap's directory is durable, too
        const int directory = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        static_cast<void>(::fsync(directory));
        ::close(directory);
    }
    return {};
}

std::string bank_watcher::end_tellers() {
    shown_->reset();
    const std::uint64_t seed = random_();
    const open_options wanted = options_of(durability_, any_domain());
    base::child_process worker([&] { return run_tellers(path_, wanted, seed, *shown_); });
    const bool runs = worker.runs_until([this] { return shown_->runs.load(); });
    static_cast<void>(worker.ends_within(random_() % 8'000'000));
    if (fail_power_ && runs) {
        fail_power_();
        static_cast<void>(worker.ends_within(random_() % 4'000'000));  // nothing that is lost may be acknowledged
    }
    worker.kill();
    if (!runs || (shown_->problem[0] != 0 && !fail_power_)) {
        return "the worker failed: " + std::string(&shown_->problem[0]);
    }
    if (shown_->refused != 0 && !fail_power_) {
        return "a sync failed";
    }
    tally_.refused += shown_->refused;
    return {};
}

std::string bank_watcher::cycle() {
    ++tally_.cycles;
    if (std::string wrong = end_tellers(); !wrong.empty()) {
        return wrong;
    }
    if (restore_power_) {
        restore_power_();
    }
    try {
        const manager heap(open_only, path_, options_of(durability_, any_domain()));
        tally_.replayed += heap.last_recovery().replayed;
        return compare(heap);
    } catch (const std::exception& failure) {
        return failure.what();
    }
}

std::string bank_watcher::compare(const manager& heap) {
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

std::uint64_t bank_watcher::kept_of(std::size_t thread) const {
    if (durability_ != durability::commit) {
        return shown_->returned[thread];
    }
    return thread == 0 ? shown_->committed.load() : shown_->first[thread].load();
}

}  // namespace holdfast::test
