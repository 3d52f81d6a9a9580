// Transactions over everything (manager::transact()) and kill -9: threads of a process add to baskets in a map, throw
// some transactions and some parts of them away, and are killed at any moment.
//
// Oracle: what thread `t` has done are its transactions 1 to `n`, `n` being its total in the heap. All that returned
// are there, and at most one more of each thread. Each has put its number into one basket, whole. No block but those of
// the map is allocated.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "kill/cycles.hpp"

namespace holdfast::test {
namespace {

constexpr std::size_t basket_threads = 3;
constexpr std::uint64_t baskets_of_thread = 97;

using basket = holdfast::vector<std::uint64_t>;
using baskets = holdfast::map<std::uint64_t, basket>;
using totals = std::array<std::uint64_t, basket_threads>;

struct basket_progress {
    std::array<std::atomic<std::uint64_t>, basket_threads> returned;
    std::atomic<bool> runs;
    char problem[400];
};

struct dropped {};

open_options basket_options() {
    open_options options;
    options.segment_size = std::uint64_t{2} << 20U;
    options.reservation = std::uint64_t{1} << 30U;
    options.decay = std::chrono::milliseconds(1);
    return options;
}

std::uint64_t key_of(std::size_t thread, std::uint64_t number) {
    return thread * baskets_of_thread + number % baskets_of_thread;
}

/// The process that is killed.
class basket_filler {
public:
    basket_filler(manager& heap, basket_progress& shown)
        : heap_(heap),
          all_(*heap.find<baskets>("baskets").first),
          done_(*heap.find<totals>("totals").first),
          shown_(shown) {}

    static int run(const std::string& path, std::uint64_t seed, basket_progress& shown) {
        try {
            manager heap(open_only, path, basket_options());
            basket_filler filler(heap, shown);
            shown.runs = true;
            std::vector<std::jthread> threads;
            for (std::size_t t = 0; t < basket_threads; ++t) {
                threads.emplace_back([&filler, t, seed] { filler.work(t, seed); });
            }
        } catch (const std::exception& failure) {
            say(shown, failure);
        }
        return 1;
    }

private:
    static void say(basket_progress& shown, const std::exception& failure) {
        fmt::format_to_n(&shown.problem[0], sizeof shown.problem - 1, "{}", failure.what());
    }
    void work(std::size_t thread, std::uint64_t seed) {
        try {
            std::mt19937_64 random(seed * basket_threads + thread);
            for (;;) {
                work_once(thread, random);
            }
        } catch (const std::exception& failure) {
            say(shown_, failure);
        }
    }
    void work_once(std::size_t thread, std::mt19937_64& random) {
        constexpr std::size_t most_bytes = 100'000;
        const bool drops_all = random() % 5 == 0;
        const bool drops_part = random() % 4 == 0;
        const std::size_t bytes = 1 + random() % most_bytes;
        std::uint64_t number = 0;
        try {
            heap_.transact([&] {
                number = ++done_[thread];
                all_[key_of(thread, number)].push_back(number);
                if (drops_part) {
                    drop_part(thread, number, bytes);
                }
                heap_.deallocate(heap_.allocate(bytes));
                if (drops_all) {
                    throw dropped();
                }
            });
            shown_.returned[thread] = number;
        } catch (const dropped&) {
            return;
        }
    }
    /// Of the transaction around it: what it did before stays.
    void drop_part(std::size_t thread, std::uint64_t number, std::size_t bytes) {
        try {
            heap_.transact([&] {
                all_[key_of(thread, number + 1)].push_back(0);
                static_cast<void>(heap_.allocate(bytes));
                throw dropped();
            });
        } catch (const dropped&) {
            return;
        }
    }

    manager& heap_;
    baskets& all_;
    totals& done_;
    basket_progress& shown_;
};

class basket_watcher {
public:
    basket_watcher(std::string directory, std::uint64_t seed) : directory_(std::move(directory)), random_(seed) {}

    std::string next_heap() {
        if (!path_.empty()) {
            manager::remove(path_);
        }
        path_ = directory_ + "/baskets" + std::to_string(tally_.heaps++);
        manager made(create_only, path_, basket_options());
        made.construct<baskets>("baskets")();
        *made.construct<totals>("totals")() = {};
        heads_ = made.statistics().allocated_blocks;
        for (auto& returned : shown_->returned) {
            returned = 0;
        }
        known_ = {};
        made.close();
        return {};
    }
    std::string cycle() {
        constexpr std::uint64_t longest = 30'000'000;
        ++tally_.cycles;
        const auto work = [&] { return basket_filler::run(path_, random_(), *shown_); };
        if (std::string wrong = kill_within(random_() % longest, *shown_, work); !wrong.empty()) {
            return wrong;
        }
        try {
            manager heap(open_only, path_, basket_options());
            return compare(heap);
        } catch (const std::exception& failure) {
            return failure.what();
        }
    }
    [[nodiscard]] const change_tally& numbers() const noexcept { return tally_; }

private:
    std::string compare(manager& heap) {
        const baskets& all = *heap.find<baskets>("baskets").first;
        const totals& done = *heap.find<totals>("totals").first;
        std::map<std::uint64_t, std::vector<std::uint64_t>> expected;
        for (std::size_t t = 0; t < basket_threads; ++t) {
            const std::uint64_t returned = shown_->returned[t];
            if (done[t] != returned && done[t] != returned + 1) {
                return fmt::format("thread {}: {} transactions returned, {} are there", t, returned, done[t]);
            }
            ++(done[t] == returned ? tally_.in_flight_before : tally_.in_flight_after);
            tally_.changes += returned - known_[t];
            known_[t] = shown_->returned[t] = done[t];
            for (std::uint64_t number = 1; number <= done[t]; ++number) {
                expected[key_of(t, number)].push_back(number);
            }
        }
        for (const auto& [key, numbers] : all) {
            const auto& wanted = expected[key];
            if (!std::equal(numbers.begin(), numbers.end(), wanted.begin(), wanted.end())) {
                return fmt::format("basket {} has {} numbers, not the {} that it was given", key, numbers.size(),
                                   wanted.size());
            }
        }
        const auto problems = heap.check(true);
        const std::uint64_t blocks = heap.statistics().allocated_blocks;
        const std::uint64_t wanted = heads_ + 2 * expected.size();
        return !problems.empty()               ? problems.front()
               : all.size() != expected.size() ? fmt::format("{} baskets, not {}", all.size(), expected.size())
               : blocks != wanted              ? fmt::format("{} blocks, not {}", blocks, wanted)
                                               : std::string();
    }

    std::string directory_;
    std::string path_;
    std::mt19937_64 random_;
    std::uint64_t heads_ = 0;
    totals known_{};
    base::shared_memory<basket_progress> shown_;
    change_tally tally_;
};

void kill_fillers(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    const change_tally found = run_kills<basket_watcher>(parent, cycles, 40, seed);
    EXPECT_GT(found.changes, cycles);
    expect_often(found.in_flight_before, cycles, 4);
}

TEST(transact_kill, leaves_whole_transactions_in_memory_file_system) {
    kill_fillers(options().memory_directory, cycles_in_memory(), options().seed + 4);
}

TEST(transact_kill, leaves_whole_transactions_on_disk) {
    kill_fillers(options().disk_directory, cycles_on_disk(), options().seed + 5);
}

}  // namespace
}  // namespace holdfast::test
