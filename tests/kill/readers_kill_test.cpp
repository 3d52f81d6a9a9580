// A writer and readers beside it, each a process of its own, of which a random one is killed, or stopped for a while,
// at any moment. The others go on.
//
// Oracle (cells.hpp): a reader sees what one number of steps has left, whole, and goes on seeing that until it
// refreshes; then at least the steps that had returned, and never fewer than before. The heap that the writer opens
// again has all that returned, and at most one transaction more.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "kill/cells.hpp"
#include "kill/cycles.hpp"

namespace holdfast::test {
namespace {

constexpr std::size_t reader_count = 4;

struct shown_of_process {
    std::atomic<bool> runs;
    std::atomic<word> rounds;
    char problem[400];
};

struct shown_of_all {
    std::atomic<word> returned;  ///< steps
    std::array<shown_of_process, reader_count + 1> process;
};

void say(shown_of_process& shown, const std::string& problem) {
    fmt::format_to_n(&shown.problem[0], sizeof shown.problem - 1, "{}", problem);
}

struct dropped {};

class cell_writer {
public:
    cell_writer(manager& heap, word seed, shown_of_all& shown)
        : heap_(heap), all_(*heap.find<cells>("cells").first), seed_(seed), shown_(shown) {}

    static int run(const std::string& path, word seed, std::uint64_t chance, shown_of_all& shown) {
        shown_of_process& own = shown.process.back();
        try {
            std::mt19937_64 random(chance);
            for (;;) {
                manager heap(open_only, path, cell_options());
                cell_writer writer(heap, seed, shown);
                own.runs = true;
                for (std::uint64_t left = random() % 400; left > 0; --left) {
                    writer.work_once(random);
                    ++own.rounds;
                }
            }
        } catch (const std::exception& failure) {
            say(own, failure.what());
        }
        return 1;
    }

private:
    void work_once(std::mt19937_64& random) {
        switch (random() % 8) {
            case 0: commit_some(random() % 30); return;
            case 1:
                try {
                    heap_.transact([&] {
                        work_on(all_.steps + 7);
                        throw dropped();
                    });
                } catch (const dropped&) {
                    return;
                }
                return;
            default: break;
        }
        heap_.transact([&] { work_on(all_.steps + 1); });
        shown_.returned = all_.steps;
    }
    void commit_some(std::uint64_t steps) {
        // A crash may leave some of them, where a transaction begins.
        heap_.transact([&] {
            for (std::uint64_t i = 0; i < steps; ++i) {
                work_on(all_.steps + 1);
            }
        });
        heap_.commit();
        shown_.returned = all_.steps;
    }
    void work_on(word number) { test::work_on(heap_, all_, seed_, number); }

    manager& heap_;
    cells& all_;
    word seed_;
    shown_of_all& shown_;
};

class cell_reader {
public:
    static int run(const std::string& path, word seed, std::uint64_t chance, shown_of_all& all, shown_of_process& own) {
        try {
            std::mt19937_64 random(chance);
            expected_cells expected(seed);
            for (;;) {
                const word least = std::max(all.returned.load(), expected.steps());
                manager heap(open_read_only, path);
                std::string wrong = look(heap, least, expected, random);
                own.runs = true;
                for (std::uint64_t left = random() % 300; left > 0 && wrong.empty(); --left) {
                    if (random() % 4 == 0) {
                        static_cast<void>(heap.wait_for_change(std::chrono::microseconds(random() % 3000)));
                        wrong = expected.compare(*heap.find<cells>("cells").first);
                        continue;
                    }
                    const word at_least = std::max(all.returned.load(), expected.steps());
                    heap.refresh();
                    wrong = look(heap, at_least, expected, random);
                    ++own.rounds;
                }
                if (!wrong.empty()) {
                    say(own, fmt::format("a reader of version {}: {}", heap.version(), wrong));
                    return 1;
                }
            }
        } catch (const std::exception& failure) {
            say(own, fmt::format("a reader: {}", failure.what()));
        }
        return 1;
    }

private:
    static std::string look(const manager& heap, word least, expected_cells& expected, std::mt19937_64& random) {
        const cells& there = *heap.find<cells>("cells").first;
        if (there.steps < least) {
            return fmt::format("{} steps, though {} were there before", there.steps, least);
        }
        expected.go_to(there.steps);
        if (std::string wrong = expected.compare(there); !wrong.empty()) {
            return wrong;
        }
        if (random() % 20 == 0) {
            const auto problems = heap.check(random() % 4 == 0);
            return problems.empty() ? std::string() : problems.front();
        }
        return {};
    }
};

struct reader_tally {
    std::uint64_t cycles = 0;
    std::uint64_t heaps = 0;
    std::uint64_t writers_killed = 0;
    std::uint64_t readers_killed = 0;
    std::uint64_t stopped = 0;
    word steps = 0;
    word refreshes = 0;
    void print(std::ostream& out, const std::string& title) const {
        out << title << ": " << cycles << " cycles on " << heaps << " heaps, " << writers_killed << " writers and "
            << readers_killed << " readers killed, " << stopped << " stopped; " << steps << " steps returned, "
            << refreshes << " versions read whole\n";
    }
};

class reader_watcher {
public:
    reader_watcher(std::string directory, std::uint64_t seed) : directory_(std::move(directory)), random_(seed) {}

    std::string next_heap() {
        if (!path_.empty()) {
            if (std::string wrong = end_heap(); !wrong.empty()) {
                return wrong;
            }
        }
        path_ = directory_ + "/cells" + std::to_string(tally_.heaps++);
        seed_ = random_();
        shown_->returned = 0;
        manager made(create_only, path_, cell_options());
        made.construct<cells>("cells")();
        made.close();
        return {};
    }
    std::string cycle() {
        constexpr std::uint64_t longest = 50'000'000;
        ++tally_.cycles;
        for (std::size_t i = 0; i <= reader_count; ++i) {
            if (workers_.at(i) == nullptr) {
                start(i);
            }
        }
        static_cast<void>(workers_.front()->ends_within(random_() % longest));
        const std::size_t victim = random_() % (reader_count + 2);
        if (victim > reader_count) {
            ++tally_.stopped;
            const auto& stopped = workers_.at(random_() % reader_count);
            stopped->send(SIGSTOP);
            static_cast<void>(stopped->ends_within(random_() % longest));
            stopped->send(SIGCONT);
        } else {
            end(victim);
            ++(victim == reader_count ? tally_.writers_killed : tally_.readers_killed);
        }
        return problem();
    }
    [[nodiscard]] const reader_tally& numbers() const noexcept { return tally_; }

private:
    void start(std::size_t i) {
        shown_of_process& own = shown_->process.at(i);
        own.runs = false;
        own.problem[0] = 0;
        const std::uint64_t chance = random_();
        if (i == reader_count) {
            workers_.at(i) =
                std::make_unique<base::child_process>([&] { return cell_writer::run(path_, seed_, chance, *shown_); });
        } else {
            workers_.at(i) = std::make_unique<base::child_process>(
                [&] { return cell_reader::run(path_, seed_, chance, *shown_, own); });
        }
    }
    void end(std::size_t i) {
        if (workers_.at(i) != nullptr) {
            const bool runs = workers_.at(i)->runs_until([&] { return shown_->process.at(i).runs.load(); });
            const base::process_end how = workers_.at(i)->kill();
            if (problem_.empty() && (!runs || !how.was_killed())) {
                problem_ = fmt::format("process {} {}: {}", i, runs ? how.text() : "did not begin",
                                       &shown_->process.at(i).problem[0]);
            }
            tally_.refreshes += i == reader_count ? 0 : shown_->process.at(i).rounds.exchange(0);
            workers_.at(i).reset();
        }
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
        for (std::size_t i = 0; i <= reader_count; ++i) {
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
                const auto problems = heap.check(true);
                wrong = there.steps < shown_->returned ? "steps that returned are lost"
                        : !problems.empty()            ? problems.front()
                        : heap.statistics().allocated_blocks != expected.blocks() + 1
                            ? "other blocks are allocated than those of the cells"
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
    base::shared_memory<shown_of_all> shown_;
    std::array<std::unique_ptr<base::child_process>, reader_count + 1> workers_;
    std::string problem_;
    reader_tally tally_;
};

void kill_readers(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    const reader_tally found = run_kills<reader_watcher>(parent, cycles, 60, seed);
    EXPECT_GE(found.refreshes, cycles);
    expect_often(found.writers_killed, cycles, 12);
}

TEST(readers_kill, see_whole_versions_in_memory_file_system) {
    kill_readers(options().memory_directory, cycles_in_memory(), options().seed + 6);
}

TEST(readers_kill, see_whole_versions_on_disk) {
    kill_readers(options().disk_directory, cycles_on_disk(), options().seed + 7);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 2000); }
