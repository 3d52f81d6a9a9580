// The maps and the queue of examples/maps and kill -9: a process changes them all in turn and is killed at any moment.
//
// Oracle: change number `i` is a function of `i`. What is left is what the changes that returned make, or one more. All
// rules of each structure hold, and no block but theirs is allocated.
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <maps/open_map.hpp>
#include <maps/ring_queue.hpp>

#include "kill/cycles.hpp"

namespace holdfast::test {
namespace {

constexpr std::uint64_t key_count = 400;
constexpr std::size_t map_count = 3;

/// Of the maps in turn, then of the queue. Phases in which they grow, and such in which they shrink.
struct change {
    std::size_t structure = 0;
    bool removes = false;
    std::uint64_t key = 0;
};
change change_of(std::uint64_t i) {
    std::mt19937_64 random(i);
    change made;
    made.structure = i % (map_count + 1);
    made.removes = (random() % 8 == 0) == (i / 2000 % 2 == 0);
    made.key = random() % key_count;
    return made;
}
std::string text_of(std::uint64_t i) {
    return fmt::format("text {}", i) + std::string(i % 64 == 3 ? 900 : i % 40, '.');
}

struct map_progress {
    std::atomic<std::uint64_t> returned;
    std::atomic<bool> runs;
    char problem[400];
};

open_options options_of(open_options::domain_choice domain) {
    open_options options;
    options.durability = durability::atomic;
    options.accept_process_crash_only = true;
    options.segment_size = std::uint64_t{2} << 20U;
    options.reservation = std::uint64_t{1} << 30U;
    options.domain = domain;
    return options;
}

/// All structures in a heap.
struct structures {
    explicit structures(manager& heap) : texts(heap, "queue", 12) {
        for (std::size_t i = 0; i < map_count; ++i) {
            all[i] = maps::open_map(heap, maps::map_names().at(i));
        }
    }
    void carry_out(std::uint64_t i) {
        const change made = change_of(i);
        if (made.structure == map_count) {
            made.removes ? static_cast<void>(texts.dequeue()) : static_cast<void>(texts.enqueue(text_of(i)));
        } else if (made.removes) {
            all[made.structure]->remove(made.key);
        } else {
            all[made.structure]->insert(made.key, i);
        }
    }

    std::array<std::unique_ptr<maps::checked_map>, map_count> all;
    maps::ring_queue texts;
};

/// What they hold.
struct contents {
    void carry_out(std::uint64_t i) {
        const change made = change_of(i);
        if (made.structure < map_count && made.removes) {
            all[made.structure].erase(made.key);
        } else if (made.structure < map_count) {
            all[made.structure][made.key] = i;
        } else if (!made.removes) {
            texts.push_back(text_of(i));
        } else if (!texts.empty()) {
            texts.pop_front();
        }
    }
    friend bool operator==(const contents&, const contents&) = default;

    std::array<std::map<std::uint64_t, std::uint64_t>, map_count> all;
    std::deque<std::string> texts;
};

int run_changes(const std::string& path, open_options wanted, map_progress& shown) {
    try {
        wanted.check_transactions = shown.returned % 4 == 0;
        manager heap(open_only, path, wanted);
        structures changed(heap);
        shown.runs = true;
        for (;; ++shown.returned) {
            changed.carry_out(shown.returned);
        }
    } catch (const std::exception& failure) {
        fmt::format_to_n(&shown.problem[0], sizeof shown.problem - 1, "{}", failure.what());
    }
    return 1;
}

class map_watcher {
public:
    map_watcher(std::string directory, std::uint64_t seed) : directory_(std::move(directory)), random_(seed) {}

    std::string next_heap() {
        if (!path_.empty()) {
            manager::remove(path_);
        }
        path_ = directory_ + "/maps" + std::to_string(tally_.heaps++);
        manager made(create_only, path_, options_of(any_domain()));
        const structures laid_out(made);
        heads_ = made.statistics().allocated_blocks;
        known_ = {};
        changes_ = shown_->returned = 0;
        return {};
    }
    std::string cycle() {
        ++tally_.cycles;
        const open_options options = options_of(any_domain());
        const auto work = [&] { return run_changes(path_, options, *shown_); };
        if (std::string wrong = kill_within(random_() % 8'000'000, *shown_, work); !wrong.empty()) {
            return wrong;
        }
        try {
            manager heap(open_only, path_, options_of(any_domain()));
            tally_.replayed += heap.last_recovery().replayed;
            return compare(heap);
        } catch (const std::exception& failure) {
            return failure.what();
        }
    }
    [[nodiscard]] const change_tally& numbers() const noexcept { return tally_; }

private:
    open_options::domain_choice any_domain() {
        return random_() % 2 == 0 ? open_options::domain_choice::page_cache : open_options::domain_choice::emulated;
    }
    std::string compare(manager& heap) {
        const structures left(heap);
        contents found;
        std::uint64_t blocks = heads_;
        for (std::size_t i = 0; i < map_count; ++i) {
            if (const std::string problem = left.all[i]->problem(); !problem.empty()) {
                return fmt::format("{}: {}", maps::map_names().at(i), problem);
            }
            blocks += left.all[i]->block_count();
            left.all[i]->for_each(
                [&](std::uint64_t key, std::uint64_t value) { return found.all[i].emplace(key, value).second; });
        }
        left.texts.for_each([&](std::string_view text) {
            found.texts.emplace_back(text);
            return true;
        });
        if (std::string wrong = judge(found); !wrong.empty()) {
            return wrong;
        }
        if (blocks += found.texts.size(); heap.statistics().allocated_blocks != blocks) {
            return fmt::format("{} blocks, expected {}", heap.statistics().allocated_blocks, blocks);
        }
        const std::vector<std::string> problems = heap.check(false);
        return problems.empty() ? std::string() : problems.front();
    }
    std::string judge(const contents& found) {
        const std::uint64_t returned = shown_->returned;
        tally_.changes += returned - changes_;
        for (; changes_ < returned; ++changes_) {
            known_.carry_out(changes_);
        }
        if (known_ == found) {
            ++tally_.in_flight_before;
            return {};
        }
        known_.carry_out(changes_);
        shown_->returned = ++changes_;
        if (known_ == found) {
            ++tally_.in_flight_after;
            return {};
        }
        return fmt::format("neither what {} changes make nor one more", returned);
    }

    std::string directory_;
    std::string path_;
    std::mt19937_64 random_;
    base::shared_memory<map_progress> shown_;
    contents known_;
    std::uint64_t changes_ = 0;  ///< that `known_` has
    std::uint64_t heads_ = 0;
    change_tally tally_;
};

void kill_maps(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    const change_tally found = run_kills<map_watcher>(parent, cycles, 60, seed);
    expect_often(found.in_flight_after, cycles, 100);  // a change is short: between its fence and its return
    expect_often(found.in_flight_before, cycles, 4);
}

TEST(map_kill, leaves_whole_changes_in_memory_file_system) {
    kill_maps(options().memory_directory, cycles_in_memory() / 2, options().seed + 4);
}

TEST(map_kill, leaves_whole_changes_on_disk) {
    kill_maps(options().disk_directory, cycles_on_disk() / 2, options().seed + 5);
}

}  // namespace
}  // namespace holdfast::test
