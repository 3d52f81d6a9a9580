// Threads that insert, change and remove entries of two indexes in a process that is ended at any moment, by a kill or
// with the power of the file system, and the examiner of what is left. One index has numbers, the other texts; their
// leaves split and unite all the time.
//
// Oracle: each thread has keys of its own, between those of the others, and changes them as a generator says that the
// examiner repeats. Its keys are as after the last call that returned, or, wholly, as after the call in flight. All
// invariants of both indexes hold, and no block but theirs is allocated (durability `collect`: none of theirs is
// missing, as check() sees, because what looks like a pointer may keep another one).
#pragma once

#include <fcntl.h>
#include <unistd.h>

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
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <holdfast/hash_index.hpp>
#include <holdfast/ordered_index.hpp>

#include "kill/cycles.hpp"
#include "support/index_entries.hpp"

namespace holdfast::test {

/// Indexes of numbers and of texts, both of one kind.
template <template <class, class> class Index>
struct index_pair {
    using numbers = Index<std::uint64_t, std::uint64_t>;
    using texts = Index<std::string_view, std::string_view>;
    static constexpr bool texts_part_leaves = requires(const texts& index) { index.first(); };
};

inline constexpr std::size_t index_threads = 3;

/// A change of one key in one index.
struct index_change {
    bool of_texts = false;
    bool removes = false;
    std::uint64_t key = 0;
    std::uint64_t value = 0;
};
/// Change number `i` of a thread: phases in which the index grows, and such in which it shrinks.
inline index_change change_of(std::size_t thread, std::uint64_t i) {
    constexpr std::uint64_t keys_of_thread = 700;
    std::mt19937_64 random(i * index_threads + thread);
    index_change made;
    made.of_texts = random() % 3 == 0;
    made.removes = (random() % 8 == 0) == (i / 1500 % 2 == 0);
    made.key = random() % keys_of_thread * index_threads + thread;
    made.value = i;
    return made;
}
inline std::string text_of_key(std::uint64_t key) { return fmt::format("key {:04}", key) + std::string(key % 64, '.'); }
/// Some have a block of whole pages, some one that is written before its group.
inline std::string text_of_value(std::uint64_t value) {
    return fmt::format("{}", value) + std::string(value % 50 == 0 ? 17'000 : value % 10 == 0 ? 700 : value % 40, '#');
}

/// What the threads tell the watcher, in memory that both have.
struct index_progress {
    std::array<std::atomic<std::uint64_t>, index_threads> returned;
    std::atomic<bool> runs;
    std::atomic<bool> power_fails;
    std::atomic<std::uint64_t> refused;  ///< calls that failed because the disk was gone
    char problem[400];
};

/// The process that is ended: changes both indexes, with several threads, until then.
template <class Pair>
class index_changer {
public:
    index_changer(manager& heap, index_progress& shown)
        : numbers_(heap, "numbers"), texts_(heap, "texts"), shown_(shown) {}

    static int run(const std::string& path, const open_options& options, index_progress& shown) {
        try {
            manager heap(open_only, path, options);
            index_changer(heap, shown).run_threads();
            heap.close(false);
        } catch (const std::exception& failure) {
            say(shown, failure);
        }
        return 1;
    }

private:
    void run_threads() {
        shown_.runs = true;
        std::vector<std::jthread> threads;
        for (std::size_t t = 0; t < index_threads; ++t) {
            threads.emplace_back([this, t] { work(t); });
        }
    }
    /// Until the process is killed, or a call fails.
    void work(std::size_t t) {
        try {
            for (;; ++shown_.returned[t]) {
                apply(change_of(t, shown_.returned[t]));
            }
        } catch (const std::exception& failure) {
            say(shown_, failure);
        }
    }
    void apply(const index_change& made) {
        if (made.of_texts) {
            static_cast<void>(made.removes ? texts_.remove(text_of_key(made.key))
                                           : texts_.upsert(text_of_key(made.key), text_of_value(made.value)));
        } else {
            static_cast<void>(made.removes ? numbers_.remove(made.key) : numbers_.upsert(made.key, made.value));
        }
    }
    /// A disk that is gone fails a sync (`poisoned`), the heap's growth (`bad_alloc`) and its close (`io`).
    static void say(index_progress& shown, const std::exception& failure) {
        const auto* const known = dynamic_cast<const error*>(&failure);
        const bool is_of_disk = known != nullptr ? known->code() == errc::poisoned || known->code() == errc::io
                                                 : dynamic_cast<const std::bad_alloc*>(&failure) != nullptr;
        if (is_of_disk && shown.power_fails) {
            ++shown.refused;
            return;
        }
        fmt::format_to_n(&shown.problem[0], sizeof shown.problem - 1, "{}", failure.what());
    }

    typename Pair::numbers numbers_;
    typename Pair::texts texts_;
    index_progress& shown_;
};

struct index_tally : change_tally {
    std::uint64_t leaves = 0;
    std::uint64_t refused = 0;
    void print(std::ostream& out, const std::string& title) const {
        change_tally::print(out, title);
        out << "  " << leaves / (cycles == 0 ? 1 : cycles) << " leaves on average, " << refused << " calls refused\n";
    }
};

template <class Pair>
class index_watcher {
public:
    index_watcher(std::string directory, std::uint64_t seed) : directory_(std::move(directory)), random_(seed) {}

    /// Cycles end with a loss of power, in the domain `disk` and durability `atomic`: `fail` lets it happen while the
    /// threads work, `restore` comes after their end.
    void use_power_loss(std::function<void()> fail, std::function<void()> restore) {
        fail_power_ = std::move(fail);
        restore_power_ = std::move(restore);
    }

    std::string next_heap() {
        if (!path_.empty()) {
            manager::remove(path_);
        }
        path_ = directory_ + "/indexes" + std::to_string(tally_.heaps++);
        manager made(create_only, path_, options_of(durability::atomic, open_options::domain_choice::detect));
        typename Pair::numbers(made, "numbers");
        typename Pair::texts(made, "texts");
        made.close();
        if (fail_power_) {  // the name of the heap's directory is durable, too
            const int directory = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            static_cast<void>(::fsync(directory));
            ::close(directory);
        }
        was_traced_ = false;
        for (std::size_t t = 0; t < index_threads; ++t) {
            known_[t] = {};
            shown_->returned[t] = 0;
        }
        return {};
    }
    std::string cycle() {
        ++tally_.cycles;
        const auto kind = random_() % 5;
        const durability wanted = kind == 0 && !fail_power_ ? durability::collect : durability::atomic;
        const auto domain = kind % 2 == 0 ? open_options::domain_choice::emulated : open_options::domain_choice::detect;
        const open_options options = options_of(wanted, domain);
        if (std::string wrong = end_changes(options); !wrong.empty()) {
            return wrong;
        }
        try {
            manager heap(open_only, path_, options);
            tally_.replayed += heap.last_recovery().replayed;
            std::string wrong = compare(heap);
            if (wrong.empty() && wanted == durability::collect) {
                heap.collect();  // what looked like a pointer may be gone
            }
            return wrong.empty() ? wrong : fmt::format("kind {}: {}", kind, wrong);
        } catch (const std::exception& failure) {
            return failure.what();
        }
    }
    [[nodiscard]] const index_tally& numbers() const noexcept { return tally_; }

private:
    [[nodiscard]] open_options options_of(durability wanted, open_options::domain_choice domain) const {
        open_options options;
        options.durability = wanted;
        options.accept_process_crash_only = true;
        options.segment_size = std::uint64_t{2} << 20U;
        options.reservation = std::uint64_t{1} << 30U;
        options.domain = fail_power_ ? open_options::domain_choice::disk : domain;
        return options;
    }

    [[nodiscard]] std::uint64_t changes_returned() const {
        return std::accumulate(shown_->returned.begin(), shown_->returned.end(), std::uint64_t{0});
    }
    /// Until so many have returned; where syncs are slow, fewer, but some.
    void await_changes(const base::child_process& worker, std::uint64_t wanted) const {
        const std::uint64_t enough = changes_returned() + 2;
        const auto patience = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
        static_cast<void>(worker.runs_until([&] {
            const std::uint64_t returned = changes_returned();
            return returned >= wanted || (returned >= enough && std::chrono::steady_clock::now() > patience);
        }));
    }

    std::string end_changes(const open_options& options) {
        const auto work = [&] { return index_changer<Pair>::run(path_, options, *shown_); };
        shown_->power_fails = false;
        shown_->refused = 0;
        if (!fail_power_) {
            return kill_within(random_() % 8'000'000, *shown_, work);
        }
        const std::uint64_t end_of_changes = changes_returned() + 1 + random_() % 150;
        const std::uint64_t in_next = random_() % 200'000;
        const std::uint64_t goes_on = random_() % 4'000'000;  // nothing that is lost may be acknowledged
        const auto power_fails = [&](const base::child_process& worker) {
            await_changes(worker, end_of_changes);
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

    /// What one thread's keys hold, in both indexes.
    struct contents {
        std::uint64_t changes = 0;
        std::map<std::uint64_t, std::uint64_t> of_numbers;
        std::map<std::string, std::string> of_texts;
        void apply(const index_change& made) {
            ++changes;
            if (made.of_texts && made.removes) {
                of_texts.erase(text_of_key(made.key));
            } else if (made.of_texts) {
                of_texts[text_of_key(made.key)] = text_of_value(made.value);
            } else if (made.removes) {
                of_numbers.erase(made.key);
            } else {
                of_numbers[made.key] = made.value;
            }
        }
        [[nodiscard]] bool holds(const contents& found) const {
            return of_numbers == found.of_numbers && of_texts == found.of_texts;
        }
    };

    std::string compare(manager& heap) {
        typename Pair::numbers all_numbers(heap, "numbers");
        typename Pair::texts all_texts(heap, "texts");
        for (const auto& problems : {all_numbers.check(), all_texts.check(), heap.check(false)}) {
            if (!problems.empty()) {
                return problems.front();
            }
        }
        std::array<contents, index_threads> found;
        for_each_entry(all_numbers, [&](std::uint64_t key, std::uint64_t value) {
            found[key % index_threads].of_numbers.emplace(key, value);
        });
        std::uint64_t entries = 0;
        for_each_entry(all_texts, [&](std::string_view key, std::string_view value) {
            const std::uint64_t number = std::stoull(std::string(key.substr(4, 4)));
            found[number % index_threads].of_texts.emplace(key, value);
            ++entries;
        });
        for (std::size_t t = 0; t < index_threads; ++t) {
            if (std::string wrong = judge(t, found[t]); !wrong.empty()) {
                return wrong;
            }
        }
        const index_statistics one = all_numbers.statistics();
        const index_statistics other = all_texts.statistics();
        tally_.leaves += one.leaves + other.leaves;
        // Two heads; the leaves; of texts, the low keys of all leaves but the first, and two blocks an entry.
        const std::uint64_t low_texts = Pair::texts_part_leaves ? other.leaves - 1 : 0;
        const std::uint64_t blocks = 2 + one.leaves + other.leaves + low_texts + 2 * entries;
        if (heap.durability() == durability::atomic && !was_traced_ && heap.statistics().allocated_blocks != blocks) {
            return fmt::format("{} blocks, expected {}", heap.statistics().allocated_blocks, blocks);
        }
        was_traced_ = was_traced_ || heap.durability() == durability::collect;
        return {};
    }
    std::string judge(std::size_t t, const contents& found) {
        contents& known = known_[t];
        const std::uint64_t returned = shown_->returned[t];
        tally_.changes += returned - known.changes;
        while (known.changes < returned) {
            known.apply(change_of(t, known.changes));
        }
        if (known.holds(found)) {
            ++tally_.in_flight_before;
            return {};
        }
        known.apply(change_of(t, returned));
        shown_->returned[t] = known.changes;
        if (known.holds(found)) {
            ++tally_.in_flight_after;
            return {};
        }
        return fmt::format(
            "thread {}: neither what {} changes make nor one more; {} and {} entries, expected {} and {}", t, returned,
            found.of_numbers.size(), found.of_texts.size(), known.of_numbers.size(), known.of_texts.size());
    }

    std::string directory_;
    std::string path_;
    std::mt19937_64 random_;
    std::function<void()> fail_power_;
    std::function<void()> restore_power_;
    base::shared_memory<index_progress> shown_;
    std::array<contents, index_threads> known_;
    bool was_traced_ = false;
    index_tally tally_;
};

}  // namespace holdfast::test
