// malloc for whole programs: loops that allocate and free, in a process of its own for each library, which LD_PRELOAD
// puts in the place of the C library's malloc. One thread.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
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

/// Each returns how many calls it made.
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

struct loop {
    const char* name;
    loop_function run;
};
constexpr loop loops[] = {{"threadtest", threadtest},
                          {"shbench", shbench},
                          {"larson", larson},
                          {"short-lived", short_lived},
                          {"growing", growing}};

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
    bench::random_source random(chosen.common.seed);
    if (chosen.loop == "memory") {
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
    const auto* const found = std::ranges::find(loops, chosen.loop, &loop::name);
    if (found == std::end(loops)) {
        throw std::runtime_error("there is no loop " + chosen.loop);
    }
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t calls = found->run(chosen.scale, random);
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
    fmt::print("{}", static_cast<double>(calls) / taken.count());
    return 0;
}

double measure(const options& chosen, const library& with, const char* name) {
    ::setenv("LD_PRELOAD", with.file, 1);
    const std::string told = bench::run_self(
        {"--loop", name, "--scale", fmt::format("{}", chosen.scale), "--seed", fmt::format("{}", chosen.common.seed)});
    ::unsetenv("LD_PRELOAD");
    return std::stod(told);
}

double median_of(const options& chosen, const library& with, const char* name) {
    std::vector<double> found;
    for (unsigned round = 0; round < chosen.common.rounds; ++round) {
        found.push_back(measure(chosen, with, name));
    }
    std::ranges::sort(found);
    return found[found.size() / 2];
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
    for (const loop& each : loops) {
        bench::row row{bench::label("loop", each.name)};
        std::vector<double> found;
        for (const library& with : libraries) {
            found.push_back(median_of(chosen, with, each.name));
            row.push_back(bench::number(fmt::format("{}_mops", with.name), found.back()));
        }
        rows.push_back(row);
        out.goal_at_least(fmt::format("{}: of mimalloc's speed", each.name), found[1] / found[2], 0.9, "x");
        out.goal_at_least(fmt::format("{}: of glibc's speed", each.name), found[1] / found[0], 1.1, "x");
    }
    out.table("Millions of calls a second", rows);
    const double alone = median_of(chosen, libraries[0], "memory");
    rows.clear();
    for (const library& with : libraries) {
        const double added = median_of(chosen, with, "memory") - alone;
        rows.push_back({bench::label("library", with.name), bench::number("added_kib", added)});
        if (std::string(with.name) == "holdfast") {
            out.goal_at_most("memory added to a small program", added, 2048, "KiB");
        }
    }
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
