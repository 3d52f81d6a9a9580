// What an ordered index costs beside maps of DRAM and an FPTree over libpmemobj, with flushes and fences as on
// persistent memory: inserts, look-ups, scans, updates, removals, the mixes of YCSB, two threads, and an open. Calls of
// one thread are measured by its processor time, the others by the clock.
#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "command_line/command_line.hpp"
#include "indexes/backend.hpp"
#include "support/random.hpp"
#include "support/report.hpp"

namespace {

using indexes::backend;

constexpr std::array<const char*, 5> all_backends{"holdfast", "holdfast-hash", "fptree-libpmemobj", "absl-btree",
                                                  "std-map"};

struct options {
    bench::common_options common;
    std::uint64_t count = 1'000'000;
    std::uint64_t open_count = 10'000'000;
    std::vector<std::string> backends{all_backends.begin(), all_backends.end()};
};

/// Ranks below a limit by Zipf's law with exponent 0.99, as YCSB draws them (J. Gray et al., 1994).
class zipf {
public:
    explicit zipf(std::uint64_t count) : count_(static_cast<double>(count)) {
        for (std::uint64_t i = 1; i <= count; ++i) {
            sum_ += 1 / std::pow(static_cast<double>(i), exponent);
        }
        eta_ = (1 - std::pow(2 / count_, 1 - exponent)) / (1 - (1 + std::pow(0.5, exponent)) / sum_);
    }
    [[nodiscard]] std::uint64_t rank(bench::random_source& random) const {
        const double u = static_cast<double>(random.next() >> 11U) * 0x1p-53;
        const double scaled = u * sum_;
        if (scaled < 1) {
            return 0;
        }
        if (scaled < 1 + std::pow(0.5, exponent)) {
            return 1;
        }
        const double rank = count_ * std::pow(eta_ * u - eta_ + 1, 1 / (1 - exponent));
        return static_cast<std::uint64_t>(std::min(rank, count_ - 1));
    }

private:
    static constexpr double exponent = 0.99;
    double count_;
    double sum_ = 0;
    double eta_ = 0;
};

/// Keys to load, and those that calls use, uniform or by Zipf's law.
struct keys {
    std::vector<std::uint64_t> loaded;
    std::vector<std::uint64_t> uniform;
    std::vector<std::uint64_t> skewed;
};
keys keys_of(const options& chosen) {
    bench::random_source random(chosen.common.seed);
    keys made;
    const zipf ranks(chosen.count);
    for (std::uint64_t i = 0; i < chosen.count; ++i) {
        made.loaded.push_back(random.next() | 1U);
    }
    for (std::uint64_t i = 0; i < chosen.count; ++i) {
        made.uniform.push_back(made.loaded[random.below(chosen.count)]);
        made.skewed.push_back(made.loaded[ranks.rank(random)]);
    }
    return made;
}

using times = std::map<std::string, std::map<std::string, bench::samples>>;

/// What a call of a mix does, in hundredths: the rest are look-ups.
struct mix {
    const char* name;
    unsigned updates;
    unsigned inserts;
    unsigned scans;
    unsigned both;  ///< look up, then update
};
constexpr mix mixes[] = {{"YCSB A", 50, 0, 0, 0}, {"YCSB B", 5, 0, 0, 0},  {"YCSB C", 0, 0, 0, 0},
                         {"YCSB D", 0, 5, 0, 0},  {"YCSB E", 0, 5, 95, 0}, {"YCSB F", 0, 0, 0, 50}};

class run {
public:
    run(const options& chosen, const keys& all) : chosen_(chosen), keys_(all) {}

    void round(backend& on) {
        const std::string name = on.name();
        const std::uint64_t count = chosen_.count;
        time("insert", name, count, [&](std::uint64_t i) { on.insert(keys_.loaded[i], i + 1); });
        time("find", name, count, [&](std::uint64_t i) { sum_ += on.find(keys_.uniform[i]); });
        time("find, Zipf", name, count, [&](std::uint64_t i) { sum_ += on.find(keys_.skewed[i]); });
        if (on.is_ordered()) {
            time("scan of 100", name, count / 20, [&](std::uint64_t i) { sum_ += on.scan(keys_.uniform[i], 100); });
        }
        time("update", name, count, [&](std::uint64_t i) { on.update(keys_.uniform[i], i + 2); });
        time("update, Zipf", name, count, [&](std::uint64_t i) { on.update(keys_.skewed[i], i + 2); });
        for (const mix& each : mixes) {
            if (each.scans == 0 || on.is_ordered()) {
                run_mix(on, each);
            }
        }
        if (on.may_have_threads()) {
            two_threads("find, 2 threads", on, [&](std::uint64_t i) { found_ = on.find(keys_.uniform[i]); });
            two_threads("update, 2 threads", on, [&](std::uint64_t i) { on.update(keys_.uniform[i], i + 3); });
        }
        if (const double bytes = on.bytes_an_entry(count); bytes != 0 && on.is_ordered()) {
            bytes_ = bytes;
        }
        time("remove", name, count, [&](std::uint64_t i) { on.remove(keys_.loaded[count - 1 - i]); });
    }
    [[nodiscard]] times& taken() noexcept { return taken_; }
    [[nodiscard]] std::uint64_t sum() const noexcept { return sum_; }
    [[nodiscard]] double bytes() const noexcept { return bytes_; }

private:
    template <class Call>
    void time(const std::string& work, const std::string& name, std::uint64_t count, Call&& call) {
        const indexes::processor_watch watch;
        for (std::uint64_t i = 0; i < count; ++i) {
            call(i);
        }
        taken_[work][name].add(watch.nanoseconds() / static_cast<double>(count));
    }
    void run_mix(backend& on, const mix& of) {
        bench::random_source random(chosen_.common.seed + 1);
        const std::uint64_t count = of.scans == 0 ? chosen_.count / 4 : chosen_.count / 40;
        time(of.name, on.name(), count, [&](std::uint64_t i) {
            const std::uint64_t key = keys_.skewed[i];
            const std::uint64_t dice = random.below(100);
            if (dice < of.updates) {
                on.update(key, i + 1);
            } else if (dice < of.updates + of.inserts) {
                on.insert(random.next() & ~std::uint64_t{1}, i + 1);
            } else if (dice < of.updates + of.inserts + of.scans) {
                sum_ += on.scan(key, 1 + random.below(100));
            } else {
                sum_ += on.find(key);
                if (dice >= 100 - of.both) {
                    on.update(key, i + 2);
                }
            }
        });
    }
    template <class Call>
    void two_threads(const std::string& work, backend& on, Call&& call) {
        const bench::stopwatch watch;
        {
            const std::jthread other([&] {
                for (std::uint64_t i = 1; i < chosen_.count; i += 2) {
                    call(i);
                }
            });
            for (std::uint64_t i = 0; i < chosen_.count; i += 2) {
                call(i);
            }
        }
        taken_[work][on.name()].add(watch.milliseconds() * 1e6 / static_cast<double>(chosen_.count));
    }

    const options& chosen_;
    const keys& keys_;
    times taken_;
    std::uint64_t sum_ = 0;
    double bytes_ = 0;
    static inline thread_local volatile std::uint64_t found_ = 0;  ///< so that look-ups are not left out
};

void judge(bench::report& out, times& taken, double record, double bytes) {
    const auto median = [&](const char* work, const char* name) { return taken[work][name].median(); };
    if (!taken["insert"].contains("holdfast")) {
        return;
    }
    out.goal_at_most("insert, against a record and a fence", median("insert", "holdfast") / record, 2.5, "times");
    if (taken["insert"].contains("fptree-libpmemobj")) {
        for (const char* const work : {"insert", "update", "remove"}) {
            out.goal_at_least(std::string(work) + ", time of the FPTree over libpmemobj",
                              median(work, "fptree-libpmemobj") / median(work, "holdfast"), 2, "times");
        }
    }
    if (taken["find"].contains("absl-btree")) {
        out.goal_at_least("find, time of absl::btree_map", median("find", "absl-btree") / median("find", "holdfast"), 1,
                          "times");
        out.goal_at_least("scan of 100, time of absl::btree_map",
                          median("scan of 100", "absl-btree") / median("scan of 100", "holdfast"), 0.7, "times");
    }
    out.goal_at_most("bytes an entry", bytes, 28, "bytes");
}

int measure(const options& chosen) {
    bench::report out("index_bench", chosen.common);
    out.begin({{"count", chosen.count}, {"open_count", chosen.open_count}, {"domain", "emulated"}});
    const keys all = keys_of(chosen);
    const std::filesystem::path directory = chosen.common.directory / "index_bench";
    const std::vector<std::function<std::unique_ptr<backend>()>> makers{
        // in the order of all_backends
        [&] { return indexes::make_holdfast(directory); }, [&] { return indexes::make_holdfast_hash(directory); },
        [&] { return indexes::make_fptree_libpmemobj(directory, chosen.count); },
        [] { return indexes::make_absl_btree(); }, [] { return indexes::make_std_map(); }};
    run working(chosen, all);
    bench::samples record;
    std::vector<std::string> missing;
    for (unsigned round = 0; round < chosen.common.rounds; ++round) {
        for (std::size_t i = 0; i < makers.size(); ++i) {
            if (std::ranges::find(chosen.backends, all_backends[i]) == chosen.backends.end()) {
                continue;
            }
            std::filesystem::remove_all(directory);
            std::filesystem::create_directories(directory);
            record.add(indexes::time_of_a_record(directory, chosen.count / 20));
            try {
                working.round(*makers[i]());
            } catch (const bench::backend_unavailable& why) {
                missing.emplace_back(why.what());
            }
        }
    }
    const double open = chosen.open_count == 0 ? 0 : indexes::time_of_an_open(directory, chosen.open_count);
    std::filesystem::remove_all(directory);
    std::sort(missing.begin(), missing.end());
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    for (const std::string& each : missing) {
        out.note(each);
    }
    std::vector<bench::row> rows;
    for (auto& [work, by_name] : working.taken()) {
        bench::row made{bench::label("work", work)};
        for (const char* const name : all_backends) {
            made.push_back(
                bench::number(std::string(name) + "_ns", by_name.contains(name) ? by_name[name].median() : 0));
        }
        rows.push_back(std::move(made));
    }
    out.table(fmt::format("a call, medians; one record and fence takes {:.0f} ns", record.median()), rows);
    out.table("an open", {{bench::count("entries", chosen.open_count), bench::number("open_ms", open),
                           bench::number("bytes_an_entry", working.bytes())}});
    judge(out, working.taken(), record.median(), working.bytes());
    if (chosen.open_count != 0) {
        out.goal_at_most("open, for 100 million entries", open * 1e8 / static_cast<double>(chosen.open_count), 1000,
                         "ms");
    }
    out.checksum(working.sum());
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    holdfast_programs::command_line app("Cost of ordered indexes");
    chosen.common.rounds = 3;
    chosen.common.declare(app);
    app.add_option("--count", chosen.count, "Entries").show_default();
    app.add_option("--open-count", chosen.open_count, "Entries of the index that is opened; 0: none").show_default();
    app.add_option("--backend", chosen.backends, "What holds the keys; several: one after the other")
        .show_default()
        .delimiter(',')
        .one_of(chosen.backends);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    if (chosen.common.smoke) {
        chosen.count = 4000;
        chosen.open_count = 20'000;
    }
    try {
        return measure(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "index_bench: {}\n", failure.what());
        return 1;
    }
}
