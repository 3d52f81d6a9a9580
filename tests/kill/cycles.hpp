// The loop of all crash tests: a watcher starts a victim, ends it, and compares what is left with what it knows.
#pragma once

#include <linux/magic.h>
#include <sys/vfs.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>

#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "base/scratch_test_support.hpp"
#include "kill/options.hpp"

namespace holdfast::test {

/// So many cycles, until one finds something wrong. A watcher has next_heap() and cycle(), which return what is wrong
/// or nothing, and numbers(), which can be printed. The last heap is left by next_heap() as all others are.
template <class Watcher>
void run_cycles(Watcher& watcher, const std::string& title, std::uint64_t cycles, std::uint64_t cycles_a_heap) {
    const auto start = std::chrono::steady_clock::now();
    std::string wrong;
    std::uint64_t done = 0;
    while (true) {
        if (done % cycles_a_heap == 0 || done == cycles) {
            wrong = watcher.next_heap();
        }
        if (!wrong.empty() || done == cycles) {
            break;
        }
        ++done;
        wrong = watcher.cycle();
    }
    watcher.numbers().print(std::cout, title);
    std::cout << "  " << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() << " s"
              << std::endl;
    EXPECT_EQ(wrong, "") << "cycle " << done << " of seed " << options().seed;
}

/// What kills did to processes that make one change after another. Each thread has at most one in flight.
struct change_tally {
    std::uint64_t cycles = 0;
    std::uint64_t heaps = 0;
    std::uint64_t changes = 0;  ///< that returned
    std::uint64_t in_flight_after = 0;
    std::uint64_t in_flight_before = 0;
    std::uint64_t replayed = 0;
    void print(std::ostream& out, const std::string& title) const {
        out << title << ": " << cycles << " cycles on " << heaps << " heaps, " << changes
            << " changes returned; in flight: " << in_flight_before << " without effect, " << in_flight_after
            << " with; " << replayed << " words rewritten\n";
    }
};

/// Runs `work` in a process and kills it so long after it has set `runs` of the memory that it shares. `before`, which
/// is given the process, comes in between, and may let it die of `also_of`, a signal. Returns what is wrong: it did not
/// run, died of another signal, or wrote a problem.
template <class Progress, class Work, class Before>
std::string kill_within(std::uint64_t nanoseconds, Progress& shown, Work&& work, Before&& before, int also_of) {
    shown.runs = false;
    shown.problem[0] = 0;
    base::child_process worker(work);
    const bool runs = worker.runs_until([&shown] { return shown.runs.load(); });
    static_cast<void>(worker.ends_within(nanoseconds));
    before(worker);
    const base::process_end end = worker.kill();
    if (end.signal() != 0 && !end.was_killed() && end.signal() != also_of) {
        return "the worker " + end.text();
    }
    return runs && shown.problem[0] == 0 ? std::string() : "the worker failed: " + std::string(&shown.problem[0]);
}
template <class Progress, class Work>
std::string kill_within(std::uint64_t nanoseconds, Progress& shown, Work&& work) {
    return kill_within(
        nanoseconds, shown, work, [](const base::child_process& /*worker*/) {}, 0);
}

/// The name of the file system that the directory lies on, as far as tests use it.
inline std::string file_system_of(const std::string& directory) {
    struct statfs numbers {};
    if (::statfs(directory.c_str(), &numbers) != 0) {
        return "unknown";
    }
    switch (numbers.f_type) {
        case TMPFS_MAGIC: return "tmpfs";
        case EXT4_SUPER_MAGIC: return "ext4";
        case XFS_SUPER_MAGIC: return "xfs";
        case BTRFS_SUPER_MAGIC: return "btrfs";
        default: return "another file system";
    }
}

/// Processes that are killed, in a new directory, which is kept where something is wrong. Returns what the watcher
/// counted; it is made from the directory and the arguments.
template <class Watcher, class... Arguments>
auto run_kills(const std::string& parent, std::uint64_t cycles, std::uint64_t cycles_a_heap, Arguments... arguments) {
    base::scratch_directory directory(parent);
    Watcher watcher(directory.path(), arguments...);
    run_cycles(watcher, "kill -9 in " + std::filesystem::absolute(parent).string() + " on " + file_system_of(parent),
               cycles, cycles_a_heap);
    if (testing::Test::HasFailure()) {
        directory.keep();
        std::cout << "  kept in " << directory.path() << std::endl;
    }
    return watcher.numbers();
}

/// A run that does not hit what it is made for proves nothing; of a few cycles that cannot be asked.
inline void expect_often(std::uint64_t hits, std::uint64_t cycles, std::uint64_t in_so_many) {
    EXPECT_TRUE(cycles < 100 || hits > cycles / in_so_many) << hits << " hits in " << cycles << " cycles";
}

/// One cycle in ten, and never none.
inline std::uint64_t cycles_on_disk() { return (options().cycles + 9) / 10; }
inline std::uint64_t cycles_in_memory() { return options().cycles - cycles_on_disk(); }

}  // namespace holdfast::test
