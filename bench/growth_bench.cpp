// What a heap costs while it grows: every workload begins with an empty heap, in a process of its own. Beside it
// mimalloc and the C library's malloc, and for heaps of files on tmpfs the time to reserve the same space at once.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <holdfast/holdfast.h>
#include <time.h>

#include "allocators/growing_pool.hpp"
#include "allocators/shared_library.hpp"
#include "allocators/ticks.hpp"
#include "command_line/command_line.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/random.hpp"
#include "support/report.hpp"
#include "support/samples.hpp"

namespace {

using holdfast_programs::command_line;
using steady = std::chrono::steady_clock;

constexpr std::size_t kibibyte = 1024;
constexpr std::size_t mebibyte = 1024 * kibibyte;
constexpr std::uint64_t pool_bytes = std::uint64_t{6} << 30U;  // of libpmemobj: more than any workload needs

struct options {
    bench::common_options common;
    std::vector<std::string> backends{"mimalloc", "glibc", "commit", "collect", "atomic"};
    std::vector<std::string> workloads;
    double scale = 1;
    std::string domain = "detect";   // of `atomic`
    bool in_processor_time = false;  // the longest call
};

/// The family of malloc of what is measured.
struct allocator {
    std::function<void*(std::size_t)> allocate;
    std::function<void*(std::size_t, std::size_t)> allocate_aligned;
    std::function<void*(void*, std::size_t)> reallocate;
    std::function<void(void*)> release;
};

/// Counts the calls of one thread, and times those that allocate.
class caller {
public:
    caller(const allocator& of, std::uint64_t seed, bool in_processor_time)
        : random(seed), of_(of), clock_(in_processor_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC) {}

    char* allocate(std::size_t bytes) {
        return timed([&] { return of_.allocate(bytes); });
    }
    char* allocate_aligned(std::size_t alignment, std::size_t bytes) {
        return timed([&] { return of_.allocate_aligned(alignment, bytes); });
    }
    char* reallocate(char* block, std::size_t bytes) {
        return timed([&] { return of_.reallocate(block, bytes); });
    }
    void release(char* block) {
        of_.release(block);
        ++calls;
    }
    bench::random_source random;
    std::uint64_t calls = 0;
    bench::tick_histogram nanoseconds;

private:
    template <class Call>
    char* timed(Call call) {
        const std::int64_t start = now_ns();
        void* const block = call();
        nanoseconds.add(static_cast<std::uint64_t>(std::max<std::int64_t>(now_ns() - start, 0)));
        if (block == nullptr) {
            throw std::bad_alloc();
        }
        ++calls;
        return static_cast<char*>(block);
    }
    [[nodiscard]] std::int64_t now_ns() const noexcept {
        timespec now{};
        ::clock_gettime(clock_, &now);
        return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    }
    const allocator& of_;
    clockid_t clock_;
};

void touch_ends(char* block, std::size_t bytes) {
    const_cast<volatile char*>(block)[0] = 1;
    const_cast<volatile char*>(block)[bytes - 1] = 1;
}

// --- workloads: each with `scale` times its usual length ------------------------------------------------------------

/// PMAlloc's DBMStest: blocks of 32 to 512 KiB, of which nine tenths go after each round.
void dbmstest(caller& by, double scale) {
    std::vector<std::pair<char*, std::size_t>> live;
    for (int round = 0; round < static_cast<int>(20 * scale) + 1; ++round) {
        for (int i = 0; i < 1000; ++i) {
            const std::size_t bytes = by.random.between(32 * kibibyte, 512 * kibibyte);
            live.emplace_back(by.allocate(bytes), bytes);
            touch_ends(live.back().first, bytes);
        }
        for (std::size_t left = live.size() * 9 / 10; left > 0; --left) {
            std::swap(live[by.random.below(live.size())], live.back());
            by.release(live.back().first);
            live.pop_back();
        }
    }
}

/// Larson's server with blocks of 32 to 512 KiB.
void larson_large(caller& by, double scale) {
    std::vector<char*> slots(1000);
    for (int step = 0; step < static_cast<int>(300'000 * scale) + 1000; ++step) {
        char*& slot = slots[by.random.below(slots.size())];
        if (slot != nullptr) {
            by.release(slot);
        }
        const std::size_t bytes = by.random.between(32 * kibibyte, 512 * kibibyte);
        slot = by.allocate(bytes);
        touch_ends(slot, bytes);
    }
}

/// One block that grows by 4 KiB to 8 MiB, as a buffer.
void realloc_steps(caller& by, double scale) {
    for (int round = 0; round < static_cast<int>(20 * scale) + 1; ++round) {
        char* block = by.allocate(4 * kibibyte);
        for (std::size_t bytes = 8 * kibibyte; bytes <= 8 * mebibyte; bytes += 4 * kibibyte) {
            block = by.reallocate(block, bytes);
            block[bytes - 1] = 1;
        }
        by.release(block);
    }
}

/// Blocks of 16 B to 4 KiB, written from end to end.
void fill_mixed(caller& by, double scale) {
    for (int i = 0; i < static_cast<int>(1'000'000 * scale); ++i) {
        const std::size_t bytes = by.random.between(16, 4 * kibibyte);
        std::memset(by.allocate(bytes), 1, bytes);
    }
}

void first_touch(caller& by, std::size_t bytes, std::size_t all) {
    for (std::size_t done = 0; done < all; done += bytes) {
        std::memset(by.allocate(bytes), 1, bytes);
    }
}

/// A million live blocks of 16 B to 4 KiB, each in turn replaced by another.
void replace_mixed(caller& by, double scale) {
    std::vector<char*> live(static_cast<std::size_t>(1'000'000 * scale) + 1);
    for (std::size_t step = 0; step < 3 * live.size(); ++step) {
        char*& block = live[step < live.size() ? step : by.random.below(live.size())];
        if (block != nullptr) {
            by.release(block);
        }
        block = by.allocate(by.random.between(16, 4 * kibibyte));
        const_cast<volatile char*>(block)[0] = 1;
    }
}

void aligned(caller& by, double scale) {
    std::vector<char*> live(2000);
    for (int step = 0; step < static_cast<int>(2'000'000 * scale) + 2000; ++step) {
        char*& block = live[by.random.below(live.size())];
        if (block != nullptr) {
            by.release(block);
        }
        block = by.allocate_aligned(64 * kibibyte, 64 * kibibyte);
        const_cast<volatile char*>(block)[0] = 1;
    }
}

/// Small blocks and large ones, each page touched, up to 4 GiB: for the longest call.
void grow(caller& by, double scale) {
    const auto all = static_cast<std::size_t>(4096 * static_cast<double>(mebibyte) * scale);
    for (std::size_t done = 0; done < all;) {
        const bool small = by.random.below(4) != 0;
        const std::size_t bytes = small ? by.random.between(16, 4000) : by.random.between(4096, 256 * kibibyte);
        char* const block = by.allocate(bytes);
        for (std::size_t at = 0; at < bytes; at += 4 * kibibyte) {
            const_cast<volatile char*>(block)[at] = 1;
        }
        done += bytes;
    }
}

struct workload {
    const char* name;
    unsigned threads;
    std::function<void(caller&, double)> work;
};

std::vector<workload> all_workloads() {
    return {{"dbmstest", 1, dbmstest},
            {"dbmstest-2", 2, [](caller& by, double scale) { dbmstest(by, scale / 2); }},
            {"larson-large", 1, larson_large},
            {"larson-large-2", 2, [](caller& by, double scale) { larson_large(by, scale / 2); }},
            {"realloc", 1, realloc_steps},
            {"fill-mixed", 1, fill_mixed},
            {"touch-4k", 1,
             [](caller& by, double scale) {
                 first_touch(by, 4 * kibibyte, static_cast<std::size_t>(512 * scale) * mebibyte);
             }},
            {"touch-64", 1,
             [](caller& by, double scale) { first_touch(by, 64, static_cast<std::size_t>(256 * scale) * mebibyte); }},
            {"replace-mixed", 1, replace_mixed},
            {"aligned-64k", 1, aligned},
            {"grow", 1, grow},
            {"grow-2", 2, [](caller& by, double scale) { grow(by, scale / 2); }}};
}

// --- what allocates -------------------------------------------------------------------------------------------------

allocator make_glibc() {
    return {[](std::size_t bytes) { return std::malloc(bytes); },
            [](std::size_t alignment, std::size_t bytes) { return std::aligned_alloc(alignment, bytes); },
            [](void* block, std::size_t bytes) { return std::realloc(block, bytes); },
            [](void* block) { std::free(block); }};
}

allocator make_mimalloc() {
    const bench::shared_library library("libmimalloc.so.2", "libmimalloc-dev");
    return {library.find<void*(std::size_t)>("mi_malloc"),
            [of = library.find<void*(std::size_t, std::size_t)>("mi_malloc_aligned")](
                std::size_t alignment, std::size_t bytes) { return of(bytes, alignment); },
            library.find<void*(void*, std::size_t)>("mi_realloc"), library.find<void(void*)>("mi_free")};
}

void must(hf_code code) {
    if (code != HF_OK) {
        throw std::runtime_error(hf_errormsg());
    }
}

/// Without a commit in the end.
using open_heap = std::unique_ptr<hf_heap, decltype([](hf_heap* heap) { static_cast<void>(hf_discard(heap)); })>;

open_heap make_heap(const std::string& path, const std::string& durability, const std::string& domain) {
    hf_options wanted = HF_OPTIONS_INIT;
    wanted.durability = durability == "commit"    ? HF_DURABILITY_COMMIT
                        : durability == "collect" ? HF_DURABILITY_COLLECT
                                                  : HF_DURABILITY_ATOMIC;
    wanted.accept_process_crash_only = 1;
    wanted.domain = domain == "emulated" && durability == "atomic" ? HF_DOMAIN_EMULATED : HF_DOMAIN_DETECT;
    hf_heap* heap = nullptr;
    must(hf_create(path.c_str(), &wanted, &heap));
    return open_heap(heap);
}

allocator allocator_of(hf_heap* heap) {
    return {[heap](std::size_t bytes) { return hf_malloc(heap, bytes); },
            [heap](std::size_t alignment, std::size_t bytes) { return hf_aligned_alloc(heap, alignment, bytes); },
            [heap](void* block, std::size_t bytes) { return hf_realloc(heap, block, bytes); },
            [heap](void* block) { static_cast<void>(hf_free(heap, block)); }};
}

/// Blocks at multiples of 64 KiB are none of its calls.
allocator allocator_of(const bench::growing_pool& pool) {
    return {[&pool](std::size_t bytes) { return pool.allocate(bytes); },
            [](std::size_t, std::size_t) -> void* { throw std::runtime_error("libpmemobj aligns no block"); },
            [&pool](void* block, std::size_t bytes) { return pool.reallocate(block, bytes); },
            [&pool](void* block) { pool.release(block); }};
}

// --- measuring ------------------------------------------------------------------------------------------------------

struct found {
    double ms = 0;
    double mops = 0;
    double longest_ms = 0;
    double p9999_us = 0;  ///< of the calls that allocate
    double charged_mib = 0;
    double resident_mib = 0;  ///< the most that the process had in memory, file pages included
    std::uint64_t calls = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(found, ms, mops, longest_ms, p9999_us, charged_mib, resident_mib, calls)

found measure(const workload& what, const allocator& with, const options& chosen) {
    std::vector<caller> callers;
    for (unsigned i = 0; i < what.threads; ++i) {
        callers.emplace_back(with, bench::mix(chosen.common.seed + i), chosen.in_processor_time);
    }
    const auto start = steady::now();
    {
        std::vector<std::jthread> others;
        for (unsigned i = 1; i < what.threads; ++i) {
            others.emplace_back([&, i] { what.work(callers[i], chosen.scale); });
        }
        what.work(callers[0], chosen.scale);
    }
    found numbers;
    numbers.ms = std::chrono::duration<double, std::milli>(steady::now() - start).count();
    bench::tick_histogram nanoseconds;
    for (const caller& each : callers) {
        numbers.calls += each.calls;
        nanoseconds.merge(each.nanoseconds);
    }
    numbers.longest_ms = static_cast<double>(nanoseconds.greatest()) / 1e6;
    numbers.p9999_us = nanoseconds.quantile(0.9999) / 1e3;
    numbers.mops = static_cast<double>(numbers.calls) / numbers.ms / 1e3;
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    numbers.resident_mib = static_cast<double>(used.ru_maxrss) / 1024;
    return numbers;
}

found measure_in_child(const workload& what, const std::string& backend, const options& chosen) {
    const bench::workplace place(chosen.common.directory);
    const auto told = bench::run_child(bench::ending::exits, [&](const bench::child_process& self) {
        if (backend == "glibc" || backend == "mimalloc") {
            self.hand_back(measure(what, backend == "glibc" ? make_glibc() : make_mimalloc(), chosen));
            return;
        }
        if (backend.starts_with("libpmemobj")) {
            const std::string pool_path = (place.path() / "pool").string();
            const bench::growing_pool pool(pool_path, pool_bytes, backend == "libpmemobj-grows");
            found numbers = measure(what, allocator_of(pool), chosen);
            numbers.charged_mib = static_cast<double>(bench::charged_bytes(pool_path)) / static_cast<double>(mebibyte);
            self.hand_back(numbers);
            return;
        }
        const std::string path = (place.path() / "growth.hf").string();
        const open_heap heap = make_heap(path, backend, chosen.domain);
        found numbers = measure(what, allocator_of(heap.get()), chosen);
        numbers.charged_mib = static_cast<double>(bench::charged_bytes(path)) / static_cast<double>(mebibyte);
        self.hand_back(numbers);
    });
    return told.get<found>();
}

/// What one fallocate of so much takes here.
double reserve_ms(const options& chosen, double mib) {
    const bench::workplace place(chosen.common.directory);
    const int file = ::open((place.path() / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const auto start = steady::now();
    const bool done =
        file >= 0 && ::fallocate(file, 0, 0, static_cast<off_t>(mib * static_cast<double>(mebibyte))) == 0;
    const double taken = std::chrono::duration<double, std::milli>(steady::now() - start).count();
    ::close(file);
    return done ? taken : 0;
}

double median_of(const std::vector<found>& rounds, double found::*number) {
    std::vector<double> values;
    values.reserve(rounds.size());
    for (const found& each : rounds) {
        values.push_back(each.*number);
    }
    std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
    return values[values.size() / 2];
}

void run_workload(bench::report& out, const workload& what, const options& chosen) {
    std::vector<std::vector<found>> rounds(chosen.backends.size());
    for (unsigned round = 0; round < chosen.common.rounds; ++round) {
        for (std::size_t i = 0; i < chosen.backends.size(); ++i) {
            rounds[i].push_back(measure_in_child(what, chosen.backends[i], chosen));
        }
    }
    std::vector<bench::row> rows;
    for (std::size_t i = 0; i < chosen.backends.size(); ++i) {
        rows.push_back({bench::label("allocator", chosen.backends[i]),
                        bench::number("time_ms", median_of(rounds[i], &found::ms)),
                        bench::number("mops", median_of(rounds[i], &found::mops)),
                        bench::number("longest_call_ms", median_of(rounds[i], &found::longest_ms)),
                        bench::number("p9999_us", median_of(rounds[i], &found::p9999_us)),
                        bench::number("resident_mib", median_of(rounds[i], &found::resident_mib)),
                        bench::number("files_mib", median_of(rounds[i], &found::charged_mib))});
    }
    out.table(what.name, rows);
    const auto peer = std::ranges::find(chosen.backends, "mimalloc");
    if (peer == chosen.backends.end()) {
        return;
    }
    const double peer_ms = median_of(rounds[static_cast<std::size_t>(peer - chosen.backends.begin())], &found::ms);
    for (std::size_t i = 0; i < chosen.backends.size(); ++i) {
        const std::string& name = chosen.backends[i];
        if (name == "commit" || name == "collect") {
            const double reserved =
                name == "collect" ? reserve_ms(chosen, median_of(rounds[i], &found::charged_mib)) : 0;
            out.goal_at_most(fmt::format("{}, {}: time, of mimalloc's and one fallocate's", what.name, name),
                             median_of(rounds[i], &found::ms) / (peer_ms + reserved), 1.3, "x");
        }
        if (std::string(what.name) == "grow" && name != "mimalloc" && name != "glibc") {
            out.goal_at_most(fmt::format("grow, {}: longest call", name), median_of(rounds[i], &found::longest_ms), 0.5,
                             "ms");
        }
    }
}

int run(options chosen) {
    if (chosen.common.smoke) {
        chosen.scale = 0.005;
        chosen.common.rounds = 1;
    }
    bench::report out("growth_bench", chosen.common);
    out.begin({{"scale", chosen.scale}});
    for (const workload& what : all_workloads()) {
        if (chosen.workloads.empty() || std::ranges::find(chosen.workloads, what.name) != chosen.workloads.end()) {
            run_workload(out, what, chosen);
        }
    }
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    chosen.common.directory = "/dev/shm";
    chosen.common.rounds = 3;
    command_line app("What a heap costs while it grows, from an empty one on, beside allocators that keep nothing");
    chosen.common.declare(app);
    std::vector<std::string> names;
    for (const workload& each : all_workloads()) {
        names.emplace_back(each.name);
    }
    app.add_option("--backend", chosen.backends, "What allocates: Holdfast's durabilities, and others")
        .show_default()
        .delimiter(',')
        .one_of({"mimalloc", "glibc", "commit", "collect", "atomic", "libpmemobj", "libpmemobj-grows"});
    app.add_option("--workload", chosen.workloads, "What is allocated; default: all").delimiter(',').one_of(names);
    app.add_option("--domain", chosen.domain, "Of atomic; emulated: with flushes and fences, as libpmemobj here")
        .show_default()
        .one_of({"detect", "emulated"});
    app.add_option("--scale", chosen.scale, "Of each workload's usual length").show_default().range(1e-4, 1e3);
    app.add_flag("--processor-time", chosen.in_processor_time,
                 "The longest call is that which takes the thread most processor time, for machines with other work");
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "growth_bench: {}\n", failure.what());
        return 1;
    }
}
