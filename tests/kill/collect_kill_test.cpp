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
#include <algorithm>
#include <ostream>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "kill/collect_model.hpp"
#include "kill/cycles.hpp"
#include "kill/destination_oracle.hpp"

namespace holdfast::test {
namespace {

// --- structures that the program links itself ------------------------------------------------------------------------

struct structure_tally {
    std::uint64_t cycles = 0;
    std::uint64_t killed_in_recovery = 0;
    std::uint64_t largest = 0;  ///< bytes of a heap

    void print(std::ostream& out, const std::string& title) const {
        out << title << ": " << cycles << " cycles, killed while they recovered: " << killed_in_recovery
            << "; largest heap " << largest << " bytes\n";
    }
};

class structure_watcher {
public:
    structure_watcher(const std::string& directory, std::uint64_t seed, open_options::domain_choice domain)
        : heap_(directory + "/heap"), seed_(seed) {
        options_.durability = durability::collect;
        options_.accept_process_crash_only = true;
        options_.domain = domain;
        options_.segment_size = std::uint64_t{4} << 20U;
        options_.reservation = std::uint64_t{1} << 30U;
    }

    /// One heap for all cycles.
    std::string next_heap() {
        manager(open_or_create, heap_, options_).close();
        return {};
    }
    std::string cycle() {
        const std::uint64_t number = tally_.cycles++;
        std::mt19937_64 random(seed_ * 1'000'000 + number);
        const bool early = random() % 8 == 0;
        std::string wrong =
            run_and_kill(*journals_, {random(), number, false}, early ? 0 : 1 + random() % 3000, random() % 3'000'000);
        if (wrong.empty() && number % 3 == 0) {  // another one, killed while it recovers
            wrong = run_and_kill(*second_, {random(), number, true}, 0, random() % 4'000'000);
            tally_.killed_in_recovery += second_->open ? 0U : 1U;
        }
        return wrong.empty() ? examine(number) : wrong;
    }
    [[nodiscard]] const structure_tally& numbers() const noexcept { return tally_; }

private:
    /// Runs a victim and kills it after `target` operations in all; 0: after so long, while it opens and recovers.
    std::string run_and_kill(structures::journals& shared, const structures::victim& how, std::uint64_t target,
                             std::uint64_t nanoseconds) {
        shared.clear();
        base::child_process victim([&] { return structures::run_victim(heap_, options_, shared, how); });
        if (target == 0) {
            static_cast<void>(victim.ends_within(nanoseconds));
        }
        if (!victim.runs_until([&] { return shared.completed() >= target; })) {
            return "the victim hangs";
        }
        const base::process_end end = victim.kill();
        return end.was_killed() ? std::string() : "the victim " + end.text() + ": " + &shared.problem[0];
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
        tally_.largest = std::max<std::uint64_t>(tally_.largest, heap.get_size());
        return wrong;
    }

    std::string heap_;
    std::uint64_t seed_;
    open_options options_;
    base::shared_memory<structures::journals> journals_;
    base::shared_memory<structures::journals> second_;
    structures::model expected_;
    structure_tally tally_;
};

class collect_kill : public testing::TestWithParam<open_options::domain_choice> {};

TEST_P(collect_kill, what_is_reached_is_intact_and_what_is_not_is_free) {
    const structure_tally found = run_kills<structure_watcher>(options().memory_directory, options().cycles / 4,
                                                               1'000'000, options().seed, GetParam());
    EXPECT_LT(found.largest, std::uint64_t{512} << 20U) << "what was unreachable is used again";
}

INSTANTIATE_TEST_SUITE_P(domains, collect_kill,
                         testing::Values(open_options::domain_choice::page_cache,
                                         open_options::domain_choice::emulated),
                         [](const auto& choice) {
                             return choice.param == open_options::domain_choice::emulated ? "emulated" : "page_cache";
                         });

// --- calls with destinations -----------------------------------------------------------------------------------------

void run_destinations(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    const auto found = run_kills<destinations::oracle>(parent, cycles, 120, seed, durability::collect);
    EXPECT_LT(found.unreached, 1 + found.blocks / 100) << "more than words that resemble pointers";
    expect_often(found.in_flight_before + found.in_flight_after, cycles, 4);
}

/// Was: realloc_to and free_from freed the block before they changed the destination, and a kill between the two left
/// one that led to memory which was free, or another's.
TEST(collect_kill, no_destination_leads_to_free_memory_in_memory_file_system) {
    run_destinations(options().memory_directory, cycles_in_memory() / 2, options().seed);
}

TEST(collect_kill, no_destination_leads_to_free_memory_on_disk) {
    run_destinations(options().disk_directory, cycles_on_disk(), options().seed + 1);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 2000); }
