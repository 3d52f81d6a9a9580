// One FPTree over Holdfast's allocator and over libpmemobj's: half insertions, half removals, of keys of 128 bytes or
// of pairs of 128 bytes. What differs between two figures is the allocator alone.
#include <barrier>
#include <ctime>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command_line/command_line.hpp"
#include "fptree/memories.hpp"
#include "fptree/tree.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/report.hpp"

namespace {

struct options {
    bench::common_options common;
    std::uint64_t keys = 2'000'000;
    std::uint64_t calls = 2'000'000;
    std::vector<unsigned> threads{1, 2};
};

struct found {
    double wall_ns = 0;  ///< of a call of one thread
    double cpu_ns = 0;
    std::uint64_t checksum = 0;
};

double thread_cpu_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// What one thread has in the tree.
class own_keys {
public:
    own_keys(std::uint64_t seed, unsigned thread) : random_(bench::mix(seed + thread)), next_(first_of(thread)) {}

    template <class Tree>
    void insert(Tree& to) {
        live_.push_back(next_);
        require(to.insert(next_++));
    }
    template <class Tree>
    void insert_or_remove(Tree& in) {
        if (live_.empty() || random_.below(2) == 0) {
            insert(in);
            return;
        }
        std::uint64_t& taken = live_[random_.below(live_.size())];
        require(in.remove(taken));
        taken = live_.back();
        live_.pop_back();
    }
    /// Of the values, which must be there.
    template <class Tree>
    [[nodiscard]] std::uint64_t sum(Tree& in) const {
        std::uint64_t all = 0;
        for (const std::uint64_t each : live_) {
            require(in.find(each) == each);
            all += each;
        }
        return all;
    }
    [[nodiscard]] std::uint64_t count() const noexcept { return live_.size(); }

private:
    static std::uint64_t first_of(unsigned thread) { return (std::uint64_t{thread} << 40U) + 1; }
    static void require(bool holds) {
        if (!holds) {
            throw std::logic_error("the tree does not have what was inserted");
        }
    }

    bench::random_source random_;
    std::uint64_t next_;
    std::vector<std::uint64_t> live_;
};

template <class Tree>
found run_threads(Tree& tree, const options& chosen, unsigned threads) {
    std::vector<own_keys> keys;
    std::vector<double> cpu(threads);
    std::vector<std::exception_ptr> failed(threads);
    for (unsigned i = 0; i < threads; ++i) {
        keys.emplace_back(chosen.common.seed, i);
    }
    std::barrier<> together(static_cast<std::ptrdiff_t>(threads) + 1);
    double wall_ns = 0;
    {
        std::vector<std::jthread> running;
        for (unsigned i = 0; i < threads; ++i) {
            running.emplace_back([&, i] {
                try {
                    for (std::uint64_t n = 0; n < chosen.keys / threads; ++n) {
                        keys[i].insert(tree);
                    }
                } catch (const std::exception&) {
                    failed[i] = std::current_exception();
                }
                together.arrive_and_wait();
                const double start = thread_cpu_ns();
                try {
                    for (std::uint64_t n = 0; failed[i] == nullptr && n < chosen.calls / threads; ++n) {
                        keys[i].insert_or_remove(tree);
                    }
                } catch (const std::exception&) {
                    failed[i] = std::current_exception();
                }
                cpu[i] = thread_cpu_ns() - start;
                together.arrive_and_wait();
            });
        }
        together.arrive_and_wait();
        const bench::stopwatch taken;
        together.arrive_and_wait();
        wall_ns = taken.milliseconds() * 1e6;
    }
    found result;
    std::uint64_t live = 0;
    for (unsigned i = 0; i < threads; ++i) {
        if (failed[i] != nullptr) {
            std::rethrow_exception(failed[i]);
        }
        result.cpu_ns += cpu[i] / static_cast<double>(chosen.calls);
        result.checksum += keys[i].sum(tree);
        live += keys[i].count();
    }
    if (tree.count() != live) {
        throw std::logic_error("the tree has other entries than it should");
    }
    result.wall_ns = wall_ns * threads / static_cast<double>(chosen.calls);
    return result;
}

template <class Memory, fptree::kind Kind>
found run_one(const options& chosen, unsigned threads) {
    const nlohmann::json result = bench::run_child(bench::ending::exits, [&](const bench::child_process& child) {
        const bench::workplace place(chosen.common.directory);
        constexpr std::uint64_t constant = std::uint64_t{256} << 20U;
        constexpr std::uint64_t an_entry = 512;  // with its part of a leaf that is half full
        Memory memory(place.path(), constant + (chosen.keys + chosen.calls / 8) * an_entry);
        auto tree = std::make_unique<fptree::tree<Memory, Kind>>(memory);
        const found measured = run_threads(*tree, chosen, threads);
        memory.check();
        child.hand_back({measured.wall_ns, measured.cpu_ns, measured.checksum});
    });
    return {result[0].get<double>(), result[1].get<double>(), result[2].get<std::uint64_t>()};
}

struct backend {
    const char* name;
    found (*strings)(const options&, unsigned threads);
    found (*pairs)(const options&, unsigned threads);
};
template <class Memory>
constexpr backend backend_of{Memory::name, run_one<Memory, fptree::kind::strings>,
                             run_one<Memory, fptree::kind::pairs>};

constexpr backend backends[] = {
    backend_of<fptree::holdfast_memory>,
#if HOLDFAST_BENCH_HAS_PMEMOBJ
    backend_of<fptree::libpmemobj_memory>,
#endif
    backend_of<fptree::holdfast_alone>,
    backend_of<fptree::ordinary_memory>,
};

struct work {
    const char* name;
    found (*backend::*run)(const options&, unsigned threads);
};
constexpr work works[] = {{"strings", &backend::strings}, {"pairs", &backend::pairs}};

int run(const options& chosen) {
    bench::report out("fptree_bench", chosen.common);
    out.begin({{"keys", chosen.keys}, {"calls", chosen.calls}, {"domain", "emulated"}});
    std::filesystem::create_directories(chosen.common.directory);
    std::uint64_t checksum = 0;
    for (const work& one : works) {
        for (const unsigned threads : chosen.threads) {
            std::map<std::string, bench::samples> wall;
            std::map<std::string, bench::samples> cpu;
            for (unsigned round = 0; round < chosen.common.rounds; ++round) {
                for (const backend& by : backends) {
                    const found measured = (by.*one.run)(chosen, threads);
                    wall[by.name].add(measured.wall_ns);
                    cpu[by.name].add(measured.cpu_ns);
                    checksum += measured.checksum;
                }
            }
            std::vector<bench::row> rows;
            const double own = cpu["holdfast"].median();
            for (const backend& by : backends) {
                rows.push_back({bench::label("allocator", by.name), bench::number("call_ns", wall[by.name].median()),
                                bench::number("cpu_ns", cpu[by.name].median()),
                                bench::number("by_holdfast", cpu[by.name].median() / own)});
            }
            const std::string title = fmt::format("{}, {} thread{}", one.name, threads, threads == 1 ? "" : "s");
            out.table(title, rows);
            if (cpu.contains("libpmemobj")) {
                out.goal_at_least(title + ", libpmemobj's time", cpu["libpmemobj"].median() / own, 2.5, "times");
            }
        }
    }
#if !HOLDFAST_BENCH_HAS_PMEMOBJ
    out.note("this build has no libpmemobj: install libpmemobj-dev and configure again");
#endif
    out.checksum(checksum);
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    holdfast_programs::command_line app("An FPTree over several allocators: half insertions, half removals");
    chosen.common.declare(app);
    app.add_option("--keys", chosen.keys, "Entries before the measurement (the papers: 50 million)").show_default();
    app.add_option("--calls", chosen.calls, "Insertions and removals, of all threads").show_default();
    app.add_option("--threads", chosen.threads, "Numbers of threads").show_default().delimiter(',').range(1U, 64U);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    if (chosen.common.smoke) {
        chosen.keys = 4'000;
        chosen.calls = 4'000;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "fptree_bench: {}\n", failure.what());
        return 1;
    }
}
