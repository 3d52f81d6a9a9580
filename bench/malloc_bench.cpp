// malloc for whole programs: loops that stand for kinds of programs, in a process for each library, which LD_PRELOAD
// puts in the place of the C library's malloc. Each runs with one thread, with two, or with both.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "command_line/command_line.hpp"
#include "support/process.hpp"
#include "support/random.hpp"
#include "support/report.hpp"

namespace {

using holdfast_programs::command_line;

struct options {
    bench::common_options common;
    double scale = 1;
    std::string loop;  // what this process is to run
    unsigned threads = 1;
};

struct library {
    const char* name;
    const char* file;  // "": the C library's
};
constexpr library libraries[] = {{"glibc", ""},
                                 {"holdfast", HOLDFAST_MALLOC_LIBRARY},
                                 {"mimalloc", "libmimalloc.so.2"},
                                 {"jemalloc", "libjemalloc.so.2"}};

void* allocate(std::size_t bytes) {
    void* const block = std::malloc(bytes);
    *static_cast<volatile char*>(block) = 1;
    return block;
}

/// What one thread of a loop does. Returns how many calls it made.
using loop_function = std::uint64_t (*)(double scale, bench::random_source random);

std::uint64_t threadtest(double scale, bench::random_source /*random*/) {
    const auto rounds = static_cast<std::uint64_t>(20'000 * scale) + 1;
    std::vector<void*> blocks(1000);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        std::ranges::generate(blocks, [] { return allocate(64); });
        std::ranges::for_each(blocks, std::free);
    }
    return rounds * 2 * blocks.size();
}

std::uint64_t shbench(double scale, bench::random_source random) {
    const auto rounds = static_cast<std::uint64_t>(2'000 * scale) + 1;
    std::vector<void*> blocks(5000);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        std::ranges::generate(blocks, [&random] { return allocate(random.between(8, 500)); });
        std::ranges::for_each(blocks, std::free);
    }
    return rounds * 2 * blocks.size();
}

std::uint64_t larson(double scale, bench::random_source random) {
    const auto steps = static_cast<std::uint64_t>(20'000'000 * scale) + 1;
    std::vector<void*> blocks(1000);
    for (std::uint64_t step = 0; step < steps; ++step) {
        void*& block = blocks[random.below(blocks.size())];
        std::free(block);
        block = allocate(random.between(8, 1000));
    }
    return 2 * steps;
}

/// As a program that factors numbers does: small blocks of three sizes, which live for a few calls.
std::uint64_t short_lived(double scale, bench::random_source /*random*/) {
    const auto steps = static_cast<std::uint64_t>(15'000'000 * scale) + 1;
    for (std::uint64_t step = 0; step < steps; ++step) {
        void* const first = allocate(16);
        void* const second = allocate(32);
        std::free(first);
        void* const third = allocate(24);
        std::free(second);
        std::free(third);
    }
    return 6 * steps;
}

/// Buffers that grow by a quarter to 100 KB.
std::uint64_t growing(double scale, bench::random_source /*random*/) {
    const auto rounds = static_cast<std::uint64_t>(3'000 * scale) + 1;
    std::uint64_t calls = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        void* block = allocate(16);
        for (std::size_t bytes = 32; bytes < 100'000; bytes = bytes * 5 / 4, ++calls) {
            void* const grown = std::realloc(block, bytes);
            if (grown == nullptr) {
                std::free(block);
                throw std::bad_alloc();
            }
            block = grown;
            static_cast<volatile char*>(block)[bytes - 1] = 1;
        }
        std::free(block);
    }
    return calls;
}

/// As a microbenchmark of glibc: blocks of one size, freed in the order of allocation or against it, few or many at a
/// time.
std::uint64_t simple(double scale, bench::random_source /*random*/) {
    const auto rounds = static_cast<std::uint64_t>(1'000 * scale) + 1;
    std::uint64_t calls = 0;
    std::vector<void*> blocks(1600);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        for (const std::size_t bytes : {16U, 64U, 256U, 1024U}) {
            for (const std::size_t count : {1U, 25U, 100U, 400U, 1600U}) {
                const std::span<void*> some{blocks.data(), count};
                std::ranges::generate(some, [bytes] { return allocate(bytes); });
                std::ranges::for_each(some, std::free);
                std::ranges::generate(some, [bytes] { return allocate(bytes); });
                std::for_each(some.rbegin(), some.rend(), std::free);
                calls += 4 * some.size();
            }
        }
    }
    return calls;
}

/// A size of 4 B to 32 KiB; half of the sizes are below 100.
std::size_t skewed_size(bench::random_source& random) {
    const std::uint64_t doublings = random.below(14);
    const std::size_t least = std::size_t{4} << std::min(doublings, random.below(14));
    return random.between(least, 2 * least - 1);
}

/// 256 blocks of skewed sizes; a random one is replaced.
std::uint64_t working_set(double scale, bench::random_source random) {
    const auto steps = static_cast<std::uint64_t>(10'000'000 * scale) + 1;
    std::vector<void*> blocks(256);
    for (std::uint64_t step = 0; step < steps; ++step) {
        void*& block = blocks[random.below(blocks.size())];
        std::free(block);
        block = allocate(skewed_size(random));
    }
    std::ranges::for_each(blocks, std::free);
    return 2 * steps;
}

/// A million live blocks, most of them small, each written whole; a random one is replaced.
std::uint64_t many_live(double scale, bench::random_source random) {
    const auto live = static_cast<std::uint64_t>(1'000'000 * scale) + 1;
    std::vector<void*> blocks(live);
    for (std::uint64_t step = 0; step < 4 * live; ++step) {
        void*& block = blocks[random.below(live)];
        std::free(block);
        const std::size_t bytes = skewed_size(random) / 8 + 8;
        block = std::memset(allocate(bytes), 1, bytes);
    }
    std::ranges::for_each(blocks, std::free);
    return 2 * 4 * live;
}

/// Trees, as of a parser: nodes, each with a name that grows once.
std::uint64_t trees(double scale, bench::random_source random) {
    struct node {
        node* left;
        node* right;
        char* name;
    };
    const auto rounds = static_cast<std::uint64_t>(600 * scale) + 1;
    std::vector<node*> nodes(4000);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            auto* const made = static_cast<node*>(allocate(sizeof(node)));
            *made = {i == 0 ? nullptr : nodes[i / 2], nullptr, static_cast<char*>(allocate(random.between(4, 20)))};
            if (auto* const longer = static_cast<char*>(std::realloc(made->name, random.between(16, 60)))) {
                made->name = longer;
            }
            nodes[i] = made;
        }
        for (node* const each : nodes) {
            std::free(each->name);
            std::free(each);
        }
    }
    return rounds * nodes.size() * 5;
}

/// Batches of blocks of 128 B to 1 KiB: each thread puts its own into a common store, and frees those that it finds
/// there.
std::uint64_t handed_over(double scale, bench::random_source random) {
    using batch = std::vector<void*>;
    static std::mutex guard;
    static std::vector<batch> waiting;
    const auto batches = static_cast<std::uint64_t>(40'000 * scale) + 1;
    for (std::uint64_t round = 0; round < batches; ++round) {
        batch made(100);
        std::ranges::generate(made, [&random] { return allocate(random.between(128, 1024)); });
        batch taken;
        {
            const std::scoped_lock lock(guard);
            waiting.push_back(std::move(made));
            if (waiting.size() > 8) {
                taken.swap(waiting.front());
                waiting.front().swap(waiting.back());
                waiting.pop_back();
            }
        }
        std::ranges::for_each(taken, std::free);
    }
    return batches * 200;
}

constexpr std::size_t page = 4096;

/// Three arrays that grow in turn, by an eighth each time, to 64 MiB. Returns pages of 4 KiB.
std::uint64_t large_growing(double scale, bench::random_source /*random*/) {
    const auto rounds = static_cast<std::uint64_t>(6 * scale) + 1;
    std::uint64_t pages = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        std::vector<char*> arrays(3, nullptr);
        for (std::size_t before = 0, bytes = 64 * 1024; bytes < std::size_t{64} << 20U;
             before = bytes, bytes = bytes * 9 / 8) {
            for (char*& each : arrays) {
                auto* const grown = static_cast<char*>(std::realloc(each, bytes));
                if (grown == nullptr) {
                    throw std::bad_alloc();
                }
                each = grown;
                std::memset(each + before, 1, bytes - before);
                pages += bytes / page;
            }
        }
        std::ranges::for_each(arrays, std::free);
    }
    return pages;
}

/// Blocks of 1 to 48 MiB, allocated, written and freed at once. Returns pages of 4 KiB.
std::uint64_t large_reuse(double scale, bench::random_source random) {
    const auto rounds = static_cast<std::uint64_t>(300 * scale) + 1;
    std::uint64_t pages = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        const std::size_t bytes = random.between(1, 48) << 20U;
        std::free(std::memset(allocate(bytes), 1, bytes));
        pages += bytes / page;
    }
    return pages;
}

struct loop {
    const char* name;
    loop_function run;
    std::vector<unsigned> threads;  ///< of each run
};
const std::vector<loop>& loops() {
    static const std::vector<loop> all{{"threadtest", threadtest, {1, 2}},
                                       {"shbench", shbench, {1, 2}},
                                       {"larson", larson, {1, 2}},
                                       {"short-lived", short_lived, {1}},
                                       {"simple", simple, {1}},
                                       {"working-set", working_set, {1, 2}},
                                       {"trees", trees, {1}},
                                       {"many-live", many_live, {1}},
                                       {"handed-over", handed_over, {2}},
                                       {"growing", growing, {1}},
                                       {"large-growing", large_growing, {1}},
                                       {"large-reuse", large_reuse, {1}}};
    return all;
}

std::uint64_t run_threads(loop_function run, unsigned threads, double scale, std::uint64_t seed) {
    std::vector<std::uint64_t> calls(threads);
    std::vector<std::thread> others;
    for (unsigned i = 1; i < threads; ++i) {
        others.emplace_back([&calls, i, run, scale, seed] { calls[i] = run(scale, bench::random_source(seed + i)); });
    }
    calls[0] = run(scale, bench::random_source(seed));
    for (std::thread& each : others) {
        each.join();
    }
    return std::accumulate(calls.begin(), calls.end(), std::uint64_t{0});
}

/// Private memory of this process that was written to; KiB.
std::uint64_t private_kibibytes() {
    std::ifstream file("/proc/self/smaps_rollup");
    for (std::string word; file >> word;) {
        if (word == "Private_Dirty:") {
            std::uint64_t found = 0;
            file >> found;
            return found;
        }
    }
    throw std::runtime_error("/proc/self/smaps_rollup says nothing of Private_Dirty");
}

/// The loader goes on without a library that it does not find.
void require_preloaded_library() {
    const char* const wanted = std::getenv("LD_PRELOAD");
    const std::string file = wanted == nullptr ? "" : std::string(wanted).substr(std::string(wanted).rfind('/') + 1);
    std::ifstream maps("/proc/self/maps");
    const std::string all{std::istreambuf_iterator<char>(maps), {}};
    if (all.find(file.substr(0, file.find(".so"))) == std::string::npos) {
        throw std::runtime_error(file + " was not loaded: install it, or its package");
    }
}

/// In the process of the library: prints millions of calls a second, or the memory of a program that does little.
int run_loop(const options& chosen) {
    require_preloaded_library();
    if (chosen.loop == "memory") {
        bench::random_source random(chosen.common.seed);
        for (int i = 0; i < 1000; ++i) {
            const std::size_t bytes = random.between(16, 1000);
            void* const block = std::memset(allocate(bytes), 1, bytes);
            if (i % 3 != 0) {
                std::free(block);
            }
        }
        fmt::print("{}", private_kibibytes());
        return 0;
    }
    const auto found = std::ranges::find(loops(), chosen.loop, &loop::name);
    if (found == loops().end()) {
        throw std::runtime_error("there is no loop " + chosen.loop);
    }
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t calls = run_threads(found->run, chosen.threads, chosen.scale, chosen.common.seed);
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
    fmt::print("{}", static_cast<double>(calls) / taken.count());
    return 0;
}

double measure(const options& chosen, const library& with, const char* name, unsigned threads) {
    ::setenv("LD_PRELOAD", with.file, 1);
    const std::string told =
        bench::run_self({"--loop", name, "--threads", fmt::format("{}", threads), "--scale",
                         fmt::format("{}", chosen.scale), "--seed", fmt::format("{}", chosen.common.seed)});
    ::unsetenv("LD_PRELOAD");
    return std::stod(told);
}

/// The libraries take turns.
std::vector<double> medians_of(const options& chosen, const char* name, unsigned threads) {
    std::vector<std::vector<double>> found(std::size(libraries));
    for (unsigned round = 0; round < chosen.common.rounds; ++round) {
        for (std::size_t i = 0; i < found.size(); ++i) {
            found[i].push_back(measure(chosen, libraries[i], name, threads));
        }
    }
    std::vector<double> medians;
    for (std::vector<double>& each : found) {
        std::ranges::sort(each);
        medians.push_back(each[each.size() / 2]);
    }
    return medians;
}

int run(options chosen) {
    if (!chosen.loop.empty()) {
        return run_loop(chosen);
    }
    if (chosen.common.smoke) {
        chosen.scale = 0.01;
        chosen.common.rounds = 1;
    }
    bench::report out("malloc_bench", chosen.common);
    out.begin({{"scale", chosen.scale}});
    std::vector<bench::row> rows;
    for (const loop& each : loops()) {
        for (const unsigned threads : each.threads) {
            const std::string name = threads == 1 ? each.name : fmt::format("{}-{}", each.name, threads);
            bench::row row{bench::label("loop", name)};
            const std::vector<double> found = medians_of(chosen, each.name, threads);
            for (std::size_t i = 0; i < found.size(); ++i) {
                row.push_back(bench::number(fmt::format("{}_mops", libraries[i].name), found[i]));
            }
            rows.push_back(row);
            out.goal_at_least(fmt::format("{}: of mimalloc's speed", name), found[1] / found[2], 0.9, "x");
            out.goal_at_least(fmt::format("{}: of glibc's speed", name), found[1] / found[0], 1.1, "x");
        }
    }
    out.table("Millions of calls a second; of large-growing and large-reuse, of pages of 4 KiB", rows);
    rows.clear();
    const std::vector<double> memory = medians_of(chosen, "memory", 1);
    for (std::size_t i = 0; i < memory.size(); ++i) {
        rows.push_back({bench::label("library", libraries[i].name), bench::number("added_kib", memory[i] - memory[0])});
    }
    out.goal_at_most("memory added to a small program", memory[1] - memory[0], 2048, "KiB");
    out.table("Private memory of a program with 334 small blocks, beyond glibc's", rows);
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    command_line app("malloc for whole programs: libholdfast-malloc.so beside other libraries");
    chosen.common.declare(app);
    app.add_option("--scale", chosen.scale, "Of each loop's usual length").show_default().range(1e-4, 1e3);
    app.add_option("--loop", chosen.loop, "Run this, in this process").internal();
    app.add_option("--threads", chosen.threads, "Of the loop that this process runs").internal();
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "malloc_bench: {}\n", failure.what());
        return 1;
    }
}
