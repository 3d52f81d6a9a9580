// Each step that keeps a heap and its stores together is needed: if one is left out, or comes too early, the simulator
// finds an image, or a state in the process, that is wrong.
#include <mutex>
#include <string>

#include <gtest/gtest.h>

#include "simulator/mutant_runner.hpp"
#include "simulator/parallel.hpp"
#include "simulator/simulator_main.hpp"
#include "simulator/transact/heap_store_explorer.hpp"

namespace holdfast::simulator {
namespace {

constexpr unsigned seconds_a_mutant = 240;
constexpr std::uint64_t programs = 40;
constexpr unsigned steps_of_a_program = 24;

std::string explore(std::uint64_t seed) {
    heap_store_explorer one(seed, seed % 4 == 0 ? 8 : 512, {2, 1, 1, 2}, 5);
    one.run(steps_of_a_program);
    return one.wrong();
}

std::string notice(const std::string& /*site*/) {
    for (std::uint64_t seed = 1; seed <= programs; ++seed) {
        if (const std::string wrong = explore(seed); !wrong.empty()) {
            return "program " + std::to_string(seed) + ": " + wrong;
        }
    }
    return {};
}

TEST(heap_store_mutants, each_is_killed) {
    const std::vector<std::string> all = options().mutants.empty()
                                             ? std::vector<std::string>{"transact.store_synced_behind",
                                                                        "transact.accept_first",
                                                                        "transact.store_stays",
                                                                        "transact.part_stays",
                                                                        "store.heap.word_ignored",
                                                                        "store.heap.kept_early",
                                                                        "store.heap.meta_back",
                                                                        "store.heap.record_stays",
                                                                        "store.log.sync"}
                                             : options().mutants;
    if (options().mutants.empty()) {
        std::mutex mutex;
        std::string wrong;
        for_each_in_parallel(programs, [&](std::size_t i) {
            const std::string one = explore(i + 1);
            const std::lock_guard lock{mutex};
            wrong += one.empty() ? "" : std::to_string(i + 1) + ": " + one + "\n";
        });
        ASSERT_EQ(wrong, "") << "with nothing left out";
    }
    expect_all_killed(run_mutants(all, seconds_a_mutant, notice), {}, all.size());
}

}  // namespace
}  // namespace holdfast::simulator

int main(int count, char** arguments) { return holdfast::simulator::simulator_main(count, arguments); }
