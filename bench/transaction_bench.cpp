// What transactions cost, by Holdfast and by libpmemobj in turn, with flushes and fences as on persistent memory.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "allocators/allocation_run.hpp"
#include "command_line/command_line.hpp"
#include "support/random.hpp"
#include "support/report.hpp"
#include "transactions/backend.hpp"

namespace {

using transactions::backend;

struct options {
    bench::common_options common;
    std::uint64_t count = 100'000;
};

struct work {
    std::string name;
    double times_libpmemobj;  ///< the goal
    std::uint64_t count;      ///< of transactions, or of look-ups
    std::function<void(backend&)> run;
};

std::vector<std::uint64_t> keys_of(const options& chosen) {
    bench::random_source random(chosen.common.seed);
    std::vector<std::uint64_t> keys(chosen.count);
    std::generate(keys.begin(), keys.end(), [&random] { return random.next(); });
    return keys;
}

/// The works on one kind of map. What is looked up is added to `sum`.
void add_map_works(std::vector<work>& works, const std::string& kind, const std::vector<std::uint64_t>& keys,
                   std::uint64_t& sum) {
    works.push_back({kind + ", insert", 4, keys.size(), [&keys, kind](backend& on) {
                         maps::map& map = on.map(kind);
                         for (std::uint64_t i = 0; i < keys.size(); ++i) {
                             map.insert(keys[i], i);
                         }
                     }});
    works.push_back({kind + ", look up", 1, keys.size(), [&keys, &sum, kind](backend& on) {
                         const maps::map& map = on.map(kind);
                         for (const std::uint64_t key : keys) {
                             sum += map.look_up(key).value_or(0);
                         }
                     }});
    works.push_back({kind + ", remove", 4, keys.size(), [&keys, &sum, kind](backend& on) {
                         maps::map& map = on.map(kind);
                         for (const std::uint64_t key : keys) {
                             sum += map.remove(key).value_or(0);
                         }
                         sum += map.count();  // 0
                     }});
}

std::vector<work> works_of(const options& chosen, const std::vector<std::uint64_t>& keys, std::uint64_t& sum) {
    const std::uint64_t quarter = chosen.count / 4;
    std::vector<work> works{
        {"word of 8 bytes", 5, chosen.count, [&chosen](backend& on) { on.change_word(chosen.count); }},
        {"4 objects changed, 1 made, 1 freed", 4, quarter, [quarter](backend& on) { on.change_objects(quarter); }},
    };
    for (const char* const kind : {"hash", "btree", "rbtree"}) {
        add_map_works(works, kind, keys, sum);
    }
    const std::uint64_t texts = std::min(chosen.count, std::uint64_t{1} << transactions::queue_bits);
    works.push_back({"queue, enqueue", 4, texts, [texts](backend& on) {
                         for (std::uint64_t i = 0; i < texts; ++i) {
                             on.queue().enqueue("what a job of the queue needs");
                         }
                     }});
    works.push_back({"queue, dequeue", 4, texts, [&sum](backend& on) {
                         while (const auto text = on.queue().dequeue()) {
                             sum += text->size();
                         }
                     }});
    return works;
}

int run(const options& chosen) {
    bench::report out("transaction_bench", chosen.common);
    out.begin({{"count", chosen.count}, {"domain", "emulated"}});
    const std::vector<std::uint64_t> keys = keys_of(chosen);
    std::uint64_t sum = 0;
    const std::vector<work> works = works_of(chosen, keys, sum);
    const std::filesystem::path directory = chosen.common.directory / "transaction_bench";
    std::filesystem::remove_all(directory);
    std::filesystem::create_directories(directory);
    std::vector<std::unique_ptr<backend>> backends;
    backends.push_back(transactions::make_holdfast(directory));
    try {
        backends.push_back(transactions::make_libpmemobj(directory));
    } catch (const bench::backend_unavailable& missing) {
        out.note(missing.what());
    }
    std::map<std::string, std::map<std::string, bench::samples>> times;
    bench::samples record;
    for (unsigned round = 0; round < chosen.common.rounds; ++round) {
        record.add(transactions::time_of_a_record(directory, chosen.count / 2));
        for (const auto& each : backends) {
            for (const work& one : works) {
                const bench::stopwatch taken;
                one.run(*each);
                times[one.name][each->name()].add(taken.milliseconds());
            }
        }
    }
    backends.clear();
    std::filesystem::remove_all(directory);
    const auto nanoseconds = [&](const work& one, const std::string& name) {
        return times[one.name][name].median() * 1e6 / static_cast<double>(one.count);
    };
    std::vector<bench::row> rows{{bench::label("work", "one record and fence"),
                                  bench::number("holdfast_ns", record.median()), bench::number("libpmemobj_ns", 0),
                                  bench::number("ratio", 0)}};
    for (const work& one : works) {
        const double own = nanoseconds(one, "holdfast");
        const double peer = nanoseconds(one, "libpmemobj");
        rows.push_back({bench::label("work", one.name), bench::number("holdfast_ns", own),
                        bench::number("libpmemobj_ns", peer), bench::number("ratio", peer / own)});
    }
    out.table("a transaction, one thread, medians", rows);
    out.goal_at_most("word of 8 bytes, against a record and a fence",
                     nanoseconds(works.front(), "holdfast") / record.median(), 1.6, "times");
    for (const work& one : works) {
        if (times[one.name].contains("libpmemobj")) {
            out.goal_at_least(one.name + ", libpmemobj's time",
                              nanoseconds(one, "libpmemobj") / nanoseconds(one, "holdfast"), one.times_libpmemobj,
                              "times");
        }
    }
    out.checksum(sum);
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    holdfast_programs::command_line app("Cost of transactions");
    chosen.common.declare(app);
    app.add_option("--count", chosen.count, "Transactions of each kind in a round").show_default();
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    if (chosen.common.smoke) {
        chosen.count = 1000;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "transaction_bench: {}\n", failure.what());
        return 1;
    }
}
