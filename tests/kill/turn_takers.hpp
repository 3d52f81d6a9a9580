// Processes that change one heap by turns, and readers beside them, for tests that kill or stop them.
//
// Oracle: cells.hpp, and a map in the heap that counts the transactions of each process. Who has the turn finds at
// least the steps that had returned before it asked for it, whole; so does who rests and refreshes. A process that was
// killed and begins again finds all its transactions that returned, and at most one more.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "base/process_test_support.hpp"
#include "kill/cells.hpp"

namespace holdfast::test {

inline constexpr std::size_t writer_count = 4;
inline constexpr std::size_t most_readers = 8;
using count_of_all = map<string, word>;

struct shown_of_writer {
    std::atomic<bool> runs;
    std::atomic<word> rounds;
    std::atomic<word> returned;  ///< transactions, in all its lives
    char problem[400];
};

struct shown_to_watcher {
    std::atomic<word> returned;                                        ///< steps
    std::array<shown_of_writer, writer_count + most_readers> process;  ///< the writers come first
};

inline open_options turn_options() {
    open_options options = cell_options();
    options.shared = true;
    return options;
}

struct taken_back {};

inline void raise_to(std::atomic<word>& what, word least) {
    word now = what.load();
    while (now < least && !what.compare_exchange_weak(now, least)) {
    }
}

class turn_taker {
public:
    turn_taker(const std::string& path, word seed, std::size_t index, shown_to_watcher& all, expected_cells& expected)
        : heap_(open_only, path, turn_options()),
          seed_(seed),
          name_(fmt::format("the process with number {}", index)),
          all_shown_(all),
          shown_(all.process.at(index)),
          expected_(expected) {}

    static int run(const std::string& path, word seed, std::size_t index, std::uint64_t chance, shown_to_watcher& all) {
        shown_of_writer& own = all.process.at(index);
        std::string wrong;
        try {
            std::mt19937_64 random(chance);
            expected_cells expected(seed);
            while (wrong.empty()) {
                turn_taker taker(path, seed, index, all, expected);
                wrong = taker.begin();
                own.runs = true;
                for (std::uint64_t left = random() % 400; left > 0 && wrong.empty(); --left) {
                    wrong = taker.work_once(random);
                    ++own.rounds;
                }
            }
        } catch (const std::exception& failure) {
            wrong = failure.what();
        }
        fmt::format_to_n(&own.problem[0], sizeof own.problem - 1, "process {}: {}", index, wrong);
        return 1;
    }

private:
    [[nodiscard]] cells& all() const { return *heap_.find<cells>("cells").first; }
    word& own_count() {
        const string name(name_.c_str(), heap_.get_allocator<char>());
        return (*heap_.find<count_of_all>("counts").first)[name];
    }
    /// What an earlier life had in flight is there or not.
    std::string begin() {
        std::string wrong;
        heap_.transact([&] {
            const word there = own_count();
            if (there < shown_.returned || there > shown_.returned + 1) {
                wrong = fmt::format("{} transactions, of which {} had returned", there, shown_.returned.load());
            }
            shown_.returned = there;
        });
        return wrong;
    }
    std::string work_once(std::mt19937_64& random) {
        switch (random() % 16) {
            case 0: return rest(random);
            case 1: return refuse();
            case 2: return store_outside();
            case 3:
                try {
                    heap_.transact([&] {
                        work_on(heap_, all(), seed_, all().steps + 7);
                        ++own_count();
                        throw taken_back();
                    });
                } catch (const taken_back&) {
                    return {};
                }
                return "an exception was swallowed";
            default: return change(random() % 8 == 0 ? 1 + random() % 20 : 1, random() % 16 == 0);
        }
    }
    std::string change(word steps, bool looks) {
        const word least = std::max(all_shown_.returned.load(), expected_.steps());
        std::string wrong;
        word now = 0;
        heap_.transact([&] {
            wrong = see(least, looks);
            for (word i = 0; i < steps; ++i) {
                work_on(heap_, all(), seed_, all().steps + 1);
            }
            ++own_count();
            now = all().steps;
        });
        raise_to(all_shown_.returned, now);
        ++shown_.returned;
        return wrong;
    }
    /// Between its turns a process reads what it has left or seen.
    std::string rest(std::mt19937_64& random) {
        const word before = all().steps;
        static_cast<void>(heap_.wait_for_change(std::chrono::microseconds(random() % 2000)));
        std::string wrong;
        heap_.read([&] { wrong = all().steps == before ? see(0, true) : "a process that rests saw another's change"; });
        if (!wrong.empty()) {
            return wrong;
        }
        const word least = std::max(all_shown_.returned.load(), before);
        heap_.refresh();
        heap_.read([&] { wrong = see(least, true); });
        if (wrong.empty() && random() % 8 == 0) {
            const auto problems = heap_.check(true);
            wrong = problems.empty() ? std::string() : problems.front();
        }
        return wrong;
    }
    std::string refuse() {
        try {
            static_cast<void>(heap_.allocate(100));
        } catch (const error& refused) {
            return refused.code() == errc::read_only ? std::string() : refused.what();
        }
        return "an allocation outside of a transaction";
    }
    std::string store_outside() {
        all().words.fill(99);
        all().steps = 7;
        std::string wrong;
        heap_.transact([&] { wrong = see(expected_.steps(), true); });
        return wrong;
    }
    std::string see(word least, bool looks) {
        const cells& there = all();
        if (there.steps < least) {
            return fmt::format("{} steps, though {} were there before", there.steps, least);
        }
        expected_.go_to(there.steps);
        return looks ? expected_.compare(there) : std::string();
    }

    manager heap_;
    word seed_;
    std::string name_;
    shown_to_watcher& all_shown_;
    shown_of_writer& shown_;
    expected_cells& expected_;
};

/// Refused while a writer that opens the heap stands still for seconds.
inline manager open_to_read(const std::string& path) {
    for (;;) {
        try {
            return {open_read_only, path};
        } catch (const error& refused) {
            if (refused.reason() != errc::locked) {
                throw;
            }
        }
    }
}

inline int read_beside(const std::string& path, word seed, std::size_t index, std::uint64_t chance,
                       shown_to_watcher& all) {
    shown_of_writer& own = all.process.at(index);
    std::string wrong;
    try {
        std::mt19937_64 random(chance);
        expected_cells expected(seed);
        while (wrong.empty()) {
            manager heap = open_to_read(path);
            for (std::uint64_t left = random() % 100; left > 0 && wrong.empty(); --left) {
                const word least = std::max(all.returned.load(), expected.steps());
                heap.refresh();
                const cells& there = *heap.find<cells>("cells").first;
                if (there.steps < least) {
                    wrong = fmt::format("{} steps, though {} were there before", there.steps, least);
                } else {
                    expected.go_to(there.steps);
                    wrong = expected.compare(there);
                }
                own.runs = true;
                ++own.rounds;
            }
        }
    } catch (const std::exception& failure) {
        wrong = failure.what();
    }
    fmt::format_to_n(&own.problem[0], sizeof own.problem - 1, "the reader with number {}: {}", index, wrong);
    return 1;
}

/// The heaps of such a test, one after the other.
class turn_heaps {
public:
    explicit turn_heaps(std::string directory) : directory_(std::move(directory)) {}

    void next(word seed) {
        path_ = directory_ + "/turns" + std::to_string(count_++);
        seed_ = seed;
        shown_->returned = 0;
        for (auto& each : shown_->process) {
            each.returned = 0;
        }
        manager made(create_only, path_, cell_options());
        made.construct<cells>("cells")();
        made.construct<count_of_all>("counts")();
        made.close();
    }
    /// What the process with this number does: those from `writer_count` on read.
    int work(std::size_t index, std::uint64_t chance) {
        return index >= writer_count ? read_beside(path_, seed_, index, chance, *shown_)
                                     : turn_taker::run(path_, seed_, index, chance, *shown_);
    }
    [[nodiscard]] shown_of_writer& shown(std::size_t index) { return shown_->process.at(index); }
    /// That a process has found.
    [[nodiscard]] std::string problem() const {
        for (const auto& each : shown_->process) {
            if (each.problem[0] != 0) {
                return &each.problem[0];
            }
        }
        return {};
    }
    /// Nobody has the heap open. Removes it, if it is as it should be; else says what is wrong.
    std::string end() {
        if (path_.empty()) {
            return {};
        }
        try {
            std::string wrong;
            {
                manager heap(open_only, path_, cell_options());
                expected_cells expected(seed_);
                const cells& there = *heap.find<cells>("cells").first;
                expected.go_to(there.steps);
                steps_ += there.steps;
                const count_of_all& counts = *heap.find<count_of_all>("counts").first;
                const auto problems = heap.check(true);
                // A node and a string of each name.
                const std::uint64_t blocks = expected.blocks() + 2 + 2 * counts.size();
                wrong = there.steps < shown_->returned ? "steps that returned are lost"
                        : !problems.empty()            ? problems.front()
                        : heap.statistics().allocated_blocks != blocks
                            ? fmt::format("{} blocks are allocated, not {}", heap.statistics().allocated_blocks, blocks)
                            : expected.compare(there);
            }
            if (wrong.empty()) {
                manager::remove(path_);
            }
            return wrong;
        } catch (const std::exception& failure) {
            return failure.what();
        }
    }
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    [[nodiscard]] word steps() const noexcept { return steps_; }

private:
    std::string directory_;
    std::string path_;
    word seed_ = 0;
    std::uint64_t count_ = 0;
    word steps_ = 0;
    base::shared_memory<shown_to_watcher> shown_;
};

}  // namespace holdfast::test
