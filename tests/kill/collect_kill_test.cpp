// SIGKILL at any moment of durability `collect`, with an oracle in another process. By hand: collect_kill_test
// --cycles N --seed N.
//
// Fault model: a process with four threads dies between any two instructions of each, and inside any system call; what
// was stored to the files stays. Two kinds of programs:
//   - structures that the program links itself (lists, trees, rings, a stack without locks): after each death all that
//     the roots reach is as the completed operations left it, and everything else is free, to the block;
//   - the calls with destinations (allocate_to, realloc_to, free_from, publish, batches, objects): after each death
//     every call that returned is there, each call in flight is there as a whole or not at all, and no destination
//     leads to memory that is free or another's.
#include <chrono>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "kill/child_process.hpp"
#include "kill/collect_model.hpp"
#include "kill/destination_oracle.hpp"
#include "kill/observer.hpp"
#include "kill/options.hpp"

namespace holdfast::test {
namespace {

/// Runs one kind of program in a new directory: cycles for as long as `cycle` finds nothing wrong.
template <class Cycle>
void run_cycles(const std::string& parent, const scratch_directory& directory, std::uint64_t cycles, Cycle cycle) {
    const auto start = std::chrono::steady_clock::now();
    std::string wrong;
    std::uint64_t done = 0;
    while (done < cycles && wrong.empty()) {
        wrong = cycle(done++);
    }
    std::cout << "kill -9 in " << std::filesystem::absolute(parent).string() << ": " << done << " cycles in "
              << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() << " s" << std::endl;
    EXPECT_EQ(wrong, "") << "cycle " << done << " of seed " << options().seed << ", in " << directory.path();
}

// --- structures that the program links itself ------------------------------------------------------------------------

class structure_cycles {
public:
    structure_cycles(std::string heap, std::uint64_t seed, open_options::domain_choice domain)
        : heap_(std::move(heap)), seed_(seed) {
        options_.durability = durability::collect;
        options_.accept_process_crash_only = true;
        options_.domain = domain;
        options_.segment_size = std::uint64_t{4} << 20U;
        options_.reservation = std::uint64_t{1} << 30U;
        manager(create_only, heap_, options_).close();
    }

    std::string cycle(std::uint64_t number) {
        std::mt19937_64 random(seed_ * 1'000'000 + number);
        const bool early = random() % 8 == 0;
        std::string wrong =
            run_and_kill(*journals_, {random(), number, false}, early ? 0 : 1 + random() % 3000, random() % 3'000'000);
        if (wrong.empty() && number % 3 == 0) {  // another one, killed while it recovers
            wrong = run_and_kill(*second_, {random(), number, true}, 0, random() % 4'000'000);
            killed_in_recovery_ += second_->open ? 0U : 1U;
        }
        return wrong.empty() ? examine(number) : wrong;
    }
    [[nodiscard]] std::uint64_t killed_in_recovery() const noexcept { return killed_in_recovery_; }
    [[nodiscard]] std::uint64_t largest() const noexcept { return largest_; }

private:
    /// Runs a victim and kills it after `target` operations in all; 0: after so long, while it opens and recovers.
    std::string run_and_kill(structures::journals& shared, const structures::victim& how, std::uint64_t target,
                             std::uint64_t nanoseconds) {
        shared.clear();
        child_process victim([&] { return structures::run_victim(heap_, options_, shared, how); });
        if (target == 0) {
            static_cast<void>(victim.ends_within(nanoseconds));
        }
        constexpr std::uint64_t interval = 5'000;
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (shared.completed() < target && !victim.ends_within(interval)) {
            if (std::chrono::steady_clock::now() > deadline) {
                return "the victim hangs";
            }
        }
        const std::string end = describe_end(victim.kill());
        return end.empty() ? end : "the victim " + end + ": " + &shared.problem[0];
    }

    std::string examine(std::uint64_t number) {
        manager heap(open_only, heap_, options_);
        std::string wrong = expected_.examine(heap, *journals_);
        std::uint64_t blocks = 0;
        heap.for_each_block([&blocks](const block_info&) { ++blocks; });
        if (wrong.empty() && blocks != expected_.nodes()) {
            wrong =
                std::to_string(blocks) + " blocks are allocated, " + std::to_string(expected_.nodes()) + " are reached";
        }
        if (wrong.empty() && number % 50 == 0) {
            const auto problems = heap.check(false);
            wrong = problems.empty() ? wrong : problems.front();
        }
        largest_ = std::max<std::uint64_t>(largest_, heap.get_size());
        return wrong;
    }

    std::string heap_;
    std::uint64_t seed_;
    open_options options_;
    shared_memory<structures::journals> journals_;
    shared_memory<structures::journals> second_;
    structures::model expected_;
    std::uint64_t killed_in_recovery_ = 0;
    std::uint64_t largest_ = 0;
};

class collect_kill : public testing::TestWithParam<open_options::domain_choice> {};

TEST_P(collect_kill, what_is_reached_is_intact_and_what_is_not_is_free) {
    scratch_directory directory(options().memory_directory);
    structure_cycles victims(directory.path() + "/heap", options().seed, GetParam());
    run_cycles(options().memory_directory, directory, options().cycles / 4,
               [&](std::uint64_t number) { return victims.cycle(number); });
    std::cout << "  killed while they recovered: " << victims.killed_in_recovery() << "; largest heap "
              << victims.largest() << " bytes" << std::endl;
    EXPECT_LT(victims.largest(), std::uint64_t{512} << 20U) << "what was unreachable is used again";
    if (HasFailure()) {
        directory.keep();
    }
}

INSTANTIATE_TEST_SUITE_P(domains, collect_kill,
                         testing::Values(open_options::domain_choice::page_cache,
                                         open_options::domain_choice::emulated),
                         [](const auto& choice) {
                             return choice.param == open_options::domain_choice::emulated ? "emulated" : "page_cache";
                         });

// --- calls with destinations -----------------------------------------------------------------------------------------

void run_destinations(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    constexpr std::uint64_t cycles_a_heap = 120;
    scratch_directory directory(parent);
    destinations::oracle watcher(directory.path(), seed, durability::collect);
    run_cycles(parent, directory, cycles, [&](std::uint64_t number) {
        std::string wrong = number % cycles_a_heap == 0 ? watcher.next_heap() : std::string();
        return wrong.empty() ? watcher.cycle() : wrong;
    });
    watcher.numbers().print(std::cout, "  destinations");
    EXPECT_LT(watcher.numbers().unreached, 1 + watcher.numbers().blocks / 100)
        << "more than words that resemble pointers";
    // A run that never cuts a call off proves nothing.
    EXPECT_GT(watcher.numbers().in_flight_before + watcher.numbers().in_flight_after, cycles / 4);
    if (testing::Test::HasFailure()) {
        directory.keep();
    }
}

/// Was: realloc_to and free_from freed the block before they changed the destination, and a kill between the two left
/// one that led to memory which was free, or another's.
TEST(collect_kill, no_destination_leads_to_free_memory_in_memory_file_system) {
    run_destinations(options().memory_directory, options().cycles * 4 / 10, options().seed);
}

TEST(collect_kill, no_destination_leads_to_free_memory_on_disk) {
    run_destinations(options().disk_directory, options().cycles / 10, options().seed + 1);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 2000); }
