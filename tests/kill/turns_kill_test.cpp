// Processes that change one heap by turns, and a reader beside them, of which a random one is killed, or stopped for a
// while, at any moment. The others go on.
//
// Oracle: cells.hpp, and a map in the heap that counts the transactions of each process. Who has the turn finds at
// least the steps that had returned before it asked for it, whole; so does who rests and refreshes. A process that was
// killed and begins again finds all its transactions that returned, and at most one more.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "kill/cells.hpp"
#include "kill/cycles.hpp"

namespace holdfast::test {
namespace {

constexpr std::size_t writer_count = 4;
using count_of_all = map<string, word>;

struct shown_of_writer {
    std::atomic<bool> runs;
    std::atomic<word> rounds;
    std::atomic<word> returned;  ///< transactions, in all its lives
    char problem[400];
};

struct shown_to_watcher {
    std::atomic<word> returned;                             ///< steps
    std::array<shown_of_writer, writer_count + 1> process;  ///< the last one is the reader
};

open_options shared_options() {
    open_options options = cell_options();
    options.shared = true;
    return options;
}

struct taken_back {};

void raise_to(std::atomic<word>& what, word least) {
    word now = what.load();
    while (now < least && !what.compare_exchange_weak(now, least)) {
    }
}

class turn_taker {
public:
    turn_taker(const std::string& path, word seed, std::size_t index, shown_to_watcher& all, expected_cells& expected)
        : heap_(open_only, path, shared_options()),
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

int read_beside(const std::string& path, word seed, std::uint64_t chance, shown_to_watcher& all) {
    shown_of_writer& own = all.process.back();
    std::string wrong;
    try {
        std::mt19937_64 random(chance);
        expected_cells expected(seed);
        while (wrong.empty()) {
            manager heap(open_read_only, path);
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
    fmt::format_to_n(&own.problem[0], sizeof own.problem - 1, "the reader: {}", wrong);
    return 1;
}

struct turn_tally {
    std::uint64_t cycles = 0;
    std::uint64_t heaps = 0;
    std::uint64_t writers_killed = 0;
    std::uint64_t readers_killed = 0;
    std::uint64_t stopped = 0;
    word steps = 0;
    word rounds = 0;
    void print(std::ostream& out, const std::string& title) const {
        out << title << ": " << cycles << " cycles on " << heaps << " heaps, " << writers_killed << " writers and "
            << readers_killed << " readers killed, " << stopped << " stopped; " << steps << " steps returned, in "
            << rounds << " rounds\n";
    }
};

class turn_watcher {
public:
    turn_watcher(std::string directory, std::uint64_t seed) : directory_(std::move(directory)), random_(seed) {}

    std::string next_heap() {
        if (!path_.empty()) {
            if (std::string wrong = end_heap(); !wrong.empty()) {
                return wrong;
            }
        }
        path_ = directory_ + "/turns" + std::to_string(tally_.heaps++);
        seed_ = random_();
        shown_->returned = 0;
        for (auto& each : shown_->process) {
            each.returned = 0;
        }
        manager made(create_only, path_, cell_options());
        made.construct<cells>("cells")();
        made.construct<count_of_all>("counts")();
        made.close();
        return {};
    }
    std::string cycle() {
        constexpr std::uint64_t longest = 50'000'000;
        ++tally_.cycles;
        for (std::size_t i = 0; i <= writer_count; ++i) {
            if (workers_.at(i) == nullptr) {
                start(i);
            }
        }
        static_cast<void>(workers_.front()->ends_within(random_() % longest));
        const std::size_t victim = random_() % (writer_count + 2);
        if (victim > writer_count) {
            ++tally_.stopped;
            const auto& stopped = workers_.at(random_() % writer_count);
            stopped->send(SIGSTOP);
            static_cast<void>(stopped->ends_within(random_() % longest));
            stopped->send(SIGCONT);
        } else {
            end(victim);
            ++(victim == writer_count ? tally_.readers_killed : tally_.writers_killed);
        }
        return problem().empty() ? others_go_on(victim) : problem();
    }
    [[nodiscard]] const turn_tally& numbers() const noexcept { return tally_; }

private:
    void start(std::size_t i) {
        shown_of_writer& own = shown_->process.at(i);
        own.runs = false;
        own.problem[0] = 0;
        const std::uint64_t chance = random_();
        if (i == writer_count) {
            workers_.at(i) =
                std::make_unique<base::child_process>([&] { return read_beside(path_, seed_, chance, *shown_); });
        } else {
            workers_.at(i) = std::make_unique<base::child_process>(
                [&] { return turn_taker::run(path_, seed_, i, chance, *shown_); });
        }
    }
    void end(std::size_t i) {
        if (workers_.at(i) == nullptr) {
            return;
        }
        const bool runs = workers_.at(i)->runs_until([&] { return shown_->process.at(i).runs.load(); });
        const base::process_end how = workers_.at(i)->kill();
        if (problem_.empty() && (!runs || !how.was_killed())) {
            problem_ = fmt::format("process {} {}: {}", i, runs ? how.text() : "did not begin",
                                   &shown_->process.at(i).problem[0]);
        }
        tally_.rounds += shown_->process.at(i).rounds.exchange(0);
        workers_.at(i).reset();
    }
    /// A dead process holds no turn.
    std::string others_go_on(std::size_t victim) {
        for (std::size_t i = 0; i <= writer_count; ++i) {
            if (i == victim || workers_.at(i) == nullptr) {
                continue;
            }
            const word before = shown_->process.at(i).rounds;
            if (!workers_.at(i)->runs_until([&] { return shown_->process.at(i).rounds.load() > before; })) {
                return problem().empty() ? fmt::format("process {} does not go on", i) : problem();
            }
        }
        return problem();
    }
    std::string problem() {
        for (const auto& each : shown_->process) {
            if (each.problem[0] != 0) {
                return &each.problem[0];
            }
        }
        return problem_;
    }
    std::string end_heap() {
        for (std::size_t i = 0; i <= writer_count; ++i) {
            end(i);
        }
        if (std::string wrong = problem(); !wrong.empty()) {
            return wrong;
        }
        try {
            std::string wrong;
            {
                manager heap(open_only, path_, cell_options());
                expected_cells expected(seed_);
                const cells& there = *heap.find<cells>("cells").first;
                expected.go_to(there.steps);
                tally_.steps += there.steps;
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

    std::string directory_;
    std::string path_;
    word seed_ = 0;
    std::mt19937_64 random_;
    base::shared_memory<shown_to_watcher> shown_;
    std::array<std::unique_ptr<base::child_process>, writer_count + 1> workers_;
    std::string problem_;
    turn_tally tally_;
};

void kill_who_take_turns(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    const turn_tally found = run_kills<turn_watcher>(parent, cycles, 60, seed);
    EXPECT_GE(found.rounds, cycles);
    expect_often(found.writers_killed, cycles, 4);
}

TEST(turns_kill, lose_nothing_in_memory_file_system) {
    kill_who_take_turns(options().memory_directory, cycles_in_memory(), options().seed + 8);
}

TEST(turns_kill, lose_nothing_on_disk) {
    kill_who_take_turns(options().disk_directory, cycles_on_disk(), options().seed + 9);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 2000); }
