// Ordered and hash indexes and kill -9: threads of a process insert, change and remove entries of two indexes, one of
// numbers and one of texts, whose leaves split and unite all the time. The process is killed at any moment, and what it
// leaves is compared with what had returned. By hand: index_kill_test --cycles N --seed N.
//
// Oracle: each thread has keys of its own, between those of the others, and changes them as a generator says that the
// examiner repeats. Its keys are as after the last call that returned, or, wholly, as after the call in flight. All
// invariants of both indexes hold, and no block but theirs is allocated (durability `collect`: none of theirs is
// missing, as check() sees, because what looks like a pointer may keep another one).
#include <array>
#include <atomic>
#include <map>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <holdfast/hash_index.hpp>
#include <holdfast/ordered_index.hpp>

#include "kill/cycles.hpp"
#include "support/index_entries.hpp"

namespace holdfast::test {
namespace {

/// Indexes of numbers and of texts, both of one kind.
template <template <class, class> class Index>
struct index_pair {
    using numbers = Index<std::uint64_t, std::uint64_t>;
    using texts = Index<std::string_view, std::string_view>;
    static constexpr bool texts_part_leaves = requires(const texts& index) { index.first(); };
};

constexpr std::size_t thread_count = 3;
constexpr std::uint64_t keys_of_thread = 700;

/// A change of one key in one index.
struct change {
    bool of_texts = false;
    bool removes = false;
    std::uint64_t key = 0;
    std::uint64_t value = 0;
};
/// Change number `i` of a thread: phases in which the index grows, and such in which it shrinks.
change change_of(std::size_t thread, std::uint64_t i) {
    std::mt19937_64 random(i * thread_count + thread);
    change made;
    made.of_texts = random() % 3 == 0;
    made.removes = (random() % 8 == 0) == (i / 1500 % 2 == 0);
    made.key = random() % keys_of_thread * thread_count + thread;
    made.value = i;
    return made;
}
std::string text_of_key(std::uint64_t key) { return fmt::format("key {:04}", key) + std::string(key % 64, '.'); }
/// Some have a block of whole pages, some one that is written before its group.
std::string text_of_value(std::uint64_t value) {
    return fmt::format("{}", value) + std::string(value % 50 == 0 ? 17'000 : value % 10 == 0 ? 700 : value % 40, '#');
}

struct progress {
    std::array<std::atomic<std::uint64_t>, thread_count> returned;
    std::atomic<bool> runs;
    char problem[400];
};

open_options options_of(durability wanted, bool emulated) {
    open_options options;
    options.durability = wanted;
    options.accept_process_crash_only = true;
    options.segment_size = std::uint64_t{2} << 20U;
    options.reservation = std::uint64_t{1} << 30U;
    options.domain = emulated ? open_options::domain_choice::emulated : open_options::domain_choice::detect;
    return options;
}

template <class Pair>
int run_changes(const std::string& path, const open_options& options, progress& shown) {
    try {
        manager heap(open_only, path, options);
        typename Pair::numbers all_numbers(heap, "numbers");
        typename Pair::texts all_texts(heap, "texts");
        shown.runs = true;
        std::vector<std::jthread> threads;
        for (std::size_t t = 0; t < thread_count; ++t) {
            threads.emplace_back([&, t] {
                for (;; ++shown.returned[t]) {
                    const change made = change_of(t, shown.returned[t]);
                    if (made.of_texts) {
                        static_cast<void>(made.removes
                                              ? all_texts.remove(text_of_key(made.key))
                                              : all_texts.upsert(text_of_key(made.key), text_of_value(made.value)));
                    } else {
                        static_cast<void>(made.removes ? all_numbers.remove(made.key)
                                                       : all_numbers.upsert(made.key, made.value));
                    }
                }
            });
        }
    } catch (const std::exception& failure) {
        fmt::format_to_n(&shown.problem[0], sizeof shown.problem - 1, "{}", failure.what());
    }
    return 1;
}

struct index_tally : change_tally {
    std::uint64_t leaves = 0;
    void print(std::ostream& out, const std::string& title) const {
        change_tally::print(out, title);
        out << "  " << leaves / (cycles == 0 ? 1 : cycles) << " leaves on average\n";
    }
};

template <class Pair>
class index_watcher {
public:
    index_watcher(std::string directory, std::uint64_t seed) : directory_(std::move(directory)), random_(seed) {}

    std::string next_heap() {
        if (!path_.empty()) {
            manager::remove(path_);
        }
        path_ = directory_ + "/indexes" + std::to_string(tally_.heaps++);
        manager made(create_only, path_, options_of(durability::atomic, false));
        typename Pair::numbers(made, "numbers");
        typename Pair::texts(made, "texts");
        made.close();
        was_traced_ = false;
        for (std::size_t t = 0; t < thread_count; ++t) {
            known_[t] = {};
            shown_->returned[t] = 0;
        }
        return {};
    }
    std::string cycle() {
        ++tally_.cycles;
        const auto kind = random_() % 5;
        const durability wanted = kind == 0 ? durability::collect : durability::atomic;
        const open_options options = options_of(wanted, kind % 2 == 0);
        const auto work = [&] { return run_changes<Pair>(path_, options, *shown_); };
        if (std::string wrong = kill_within(random_() % 8'000'000, *shown_, work); !wrong.empty()) {
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
    /// What one thread's keys hold, in both indexes.
    struct contents {
        std::uint64_t changes = 0;
        std::map<std::uint64_t, std::uint64_t> of_numbers;
        std::map<std::string, std::string> of_texts;
        void apply(const change& made) {
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
        std::array<contents, thread_count> found;
        for_each_entry(all_numbers, [&](std::uint64_t key, std::uint64_t value) {
            found[key % thread_count].of_numbers.emplace(key, value);
        });
        std::uint64_t entries = 0;
        for_each_entry(all_texts, [&](std::string_view key, std::string_view value) {
            const std::uint64_t number = std::stoull(std::string(key.substr(4, 4)));
            found[number % thread_count].of_texts.emplace(key, value);
            ++entries;
        });
        for (std::size_t t = 0; t < thread_count; ++t) {
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
    base::shared_memory<progress> shown_;
    std::array<contents, thread_count> known_;
    bool was_traced_ = false;
    index_tally tally_;
};

template <template <class, class> class Index>
void run(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    const index_tally found = run_kills<index_watcher<index_pair<Index>>>(parent, cycles, 60, seed);
    expect_often(found.in_flight_after, cycles, 200);  // a call is short: between its fence and its return
    expect_often(found.in_flight_before, cycles, 4);
}

TEST(index_kill, leaves_whole_entries_in_memory_file_system) {
    run<ordered_index>(options().memory_directory, cycles_in_memory(), options().seed);
}
TEST(index_kill, leaves_whole_hashed_entries_in_memory_file_system) {
    run<hash_index>(options().memory_directory, cycles_in_memory(), options().seed);
}

TEST(index_kill, leaves_whole_entries_on_disk) {
    run<ordered_index>(options().disk_directory, cycles_on_disk(), options().seed + 1);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 2000); }
