// Threads that add to baskets in a map by transactions over everything (manager::transact()), and throw some of them
// and some parts of them away, in a process that is ended at any moment, by a kill or with the power of the file
// system, and the examiner of what is left.
//
// Oracle: what thread `t` has done are its transactions 1 to `n`, `n` being its total in the heap. All that returned
// are there, and at most one more of each thread. Each has put its number into one basket, and into what it has of
// every other kind of container (basket_shelf.hpp), whole. No block but theirs is allocated: behind the end of all of
// them, none is left.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <new>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "kill/basket_shelf.hpp"
#include "kill/cycles.hpp"

namespace holdfast::test {

inline constexpr std::size_t basket_threads = 4;
inline constexpr std::uint64_t baskets_of_thread = 97;

using basket = holdfast::vector<std::uint64_t>;
using baskets = holdfast::map<std::uint64_t, basket>;
using totals = std::array<std::uint64_t, basket_threads>;

struct basket_progress {
    std::array<std::atomic<std::uint64_t>, basket_threads> returned;
    std::atomic<bool> runs;
    std::atomic<bool> power_fails;
    std::atomic<std::uint64_t> refused;  ///< calls that failed because the disk was gone
    char problem[400];
};

struct dropped {};

inline open_options basket_options() {
    open_options options;
    options.segment_size = std::uint64_t{2} << 20U;
    options.reservation = std::uint64_t{1} << 30U;
    options.decay = std::chrono::milliseconds(1);
    return options;
}

inline std::uint64_t basket_of(std::size_t thread, std::uint64_t number) {
    return thread * baskets_of_thread + number % baskets_of_thread;
}

/// The process that is killed.
class basket_filler {
public:
    basket_filler(manager& heap, basket_progress& shown)
        : heap_(heap),
          all_(*heap.find<baskets>("baskets").first),
          done_(*heap.find<totals>("totals").first),
          shelf_(heap),
          shown_(shown) {}

    static int run(const std::string& path, std::uint64_t seed, basket_progress& shown) {
        try {
            open_options options = basket_options();
            options.commit_on_close = false;
            manager heap(open_only, path, options);
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
    /// A disk that is gone fails a sync (`poisoned`), the heap's growth (`bad_alloc`) and reads (`io`).
    static void say(basket_progress& shown, const std::exception& failure) {
        const auto* const known = dynamic_cast<const error*>(&failure);
        const bool is_of_disk = known != nullptr ? known->code() == errc::poisoned || known->code() == errc::io
                                                 : dynamic_cast<const std::bad_alloc*>(&failure) != nullptr;
        if (is_of_disk && shown.power_fails) {
            ++shown.refused;
            return;
        }
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
                all_[basket_of(thread, number)].push_back(number);
                if (drops_part) {
                    drop_part(thread, number, bytes);
                }
                shelf_.put(thread, number);
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
                all_[basket_of(thread, number + 1)].push_back(0);
                shelf_.put(thread, number);
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
    basket_shelf shelf_;
    basket_progress& shown_;
};

struct basket_tally : change_tally {
    std::uint64_t refused = 0;
    void print(std::ostream& out, const std::string& title) const {
        change_tally::print(out, title);
        out << "  " << refused << " calls refused\n";
    }
};

class basket_watcher {
public:
    basket_watcher(std::string directory, std::uint64_t seed) : directory_(std::move(directory)), random_(seed) {}

    /// Cycles end with a loss of power: `fail` lets it happen while the threads work, `restore` comes after their end.
    void use_power_loss(std::function<void()> fail, std::function<void()> restore) {
        fail_power_ = std::move(fail);
        restore_power_ = std::move(restore);
    }

    std::string next_heap() {
        if (!path_.empty()) {
            manager::remove(path_);
        }
        path_ = directory_ + "/baskets" + std::to_string(tally_.heaps++);
        manager made(create_only, path_, basket_options());
        heads_ = made.statistics().allocated_blocks;
        made.construct<baskets>("baskets")();
        *made.construct<totals>("totals")() = {};
        basket_shelf::make(made);
        for (auto& returned : shown_->returned) {
            returned = 0;
        }
        known_ = {};
        made.close();
        if (fail_power_) {  // the name of the heap's directory is durable, too
            const int directory = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            static_cast<void>(::fsync(directory));
            ::close(directory);
        }
        return {};
    }
    std::string cycle() {
        ++tally_.cycles;
        if (std::string wrong = end_filler(); !wrong.empty()) {
            return wrong;
        }
        try {
            manager heap(open_only, path_, basket_options());
            std::string wrong = compare(heap);
            if (wrong.empty() && random_() % 4 != 0) {  // the next session finds a heap that was closed, or this crash
                wrong = find_leaks(heap);
            }
            return wrong;
        } catch (const std::exception& failure) {
            return failure.what();
        }
    }
    [[nodiscard]] const basket_tally& numbers() const noexcept { return tally_; }

private:
    [[nodiscard]] std::uint64_t transactions_returned() const {
        return std::accumulate(shown_->returned.begin(), shown_->returned.end(), std::uint64_t{0});
    }
    std::string end_filler() {
        constexpr std::uint64_t longest = 30'000'000;
        const std::uint64_t seed = random_();
        const auto work = [&, seed] { return basket_filler::run(path_, seed, *shown_); };
        shown_->power_fails = false;
        shown_->refused = 0;
        const std::uint64_t enough = transactions_returned() + 1 + random_() % 20;
        const auto await_some = [&](const base::child_process& worker) {
            static_cast<void>(worker.runs_until([&] { return transactions_returned() >= enough; }));
        };
        if (!fail_power_) {
            // On a busy disk half of the kills would come before the first one returns.
            return random_() % 2 == 0 ? kill_within(random_() % longest, *shown_, work)
                                      : kill_within(random_() % (longest / 30), *shown_, work, await_some, 0);
        }
        const std::uint64_t in_next = random_() % 500'000;
        const std::uint64_t goes_on = random_() % 4'000'000;  // nothing that is lost may be acknowledged
        const auto power_fails = [&](const base::child_process& worker) {
            await_some(worker);
            static_cast<void>(worker.ends_within(in_next));
            shown_->power_fails = true;
            fail_power_();
            static_cast<void>(worker.ends_within(goes_on));
        };
        std::string wrong = kill_within(0, *shown_, work, power_fails, SIGBUS);  // a page that cannot be read
        restore_power_();
        tally_.refused += shown_->refused;
        return wrong;
    }
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
                expected[basket_of(t, number)].push_back(number);
            }
        }
        for (const auto& [key, numbers] : all) {
            const auto& wanted = expected[key];
            if (!std::equal(numbers.begin(), numbers.end(), wanted.begin(), wanted.end())) {
                return fmt::format("basket {} has {} numbers, not the {} that it was given", key, numbers.size(),
                                   wanted.size());
            }
        }
        if (all.size() != expected.size()) {
            return fmt::format("{} baskets, not {}", all.size(), expected.size());
        }
        for (std::size_t t = 0; t < basket_threads; ++t) {
            if (std::string wrong = basket_shelf(heap).difference(t, done[t]); !wrong.empty()) {
                return fmt::format("thread {} with {}: {}", t, done[t], wrong);
            }
        }
        const auto problems = heap.check(true);
        return problems.empty() ? std::string() : problems.front();
    }
    /// Ends all objects, without a commit.
    std::string find_leaks(manager& heap) {
        basket_shelf::end(heap);
        heap.destroy<baskets>("baskets");
        heap.destroy<totals>("totals");
        const std::uint64_t blocks = heap.statistics().allocated_blocks;
        heap.close(false);
        return blocks == heads_ ? std::string() : fmt::format("{} blocks, not {}", blocks, heads_);
    }

    std::string directory_;
    std::string path_;
    std::mt19937_64 random_;
    std::uint64_t heads_ = 0;
    totals known_{};
    base::shared_memory<basket_progress> shown_;
    basket_tally tally_;
    std::function<void()> fail_power_;
    std::function<void()> restore_power_;
};

}  // namespace holdfast::test
