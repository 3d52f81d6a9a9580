// Finding one page that was stored to among resident pages of a private mapping on the file system of TMPDIR, of
// SEGMENT_BENCH_MIB MiB (64), after `worn` small commits all over it: by looking for private pages, or in watched
// memory. And what watching costs: a first store to a page, and the first read of pages that are in the page cache.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/scratch_test_support.hpp"
#include "base/units.hpp"
#include "segment/commit/dirty_pages.hpp"
#include "segment/files/address_range.hpp"

namespace holdfast::segment {
namespace {

using base::page_size;

std::chrono::duration<double> time_of_process() {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

std::uint64_t bytes_of_bench() {
    const char* const said = std::getenv("SEGMENT_BENCH_MIB");
    return (said == nullptr ? 64 : std::strtoull(said, nullptr, 10)) * base::mebibyte;
}

/// Once for all benchmarks.
int shared_file() {
    static const base::scratch_directory directory(base::disk_directory());
    static const int file = [] {
        const int made = ::open(directory.path("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        const std::vector<char> content(16 * base::mebibyte, 1);
        for (std::uint64_t at = 0; at < bytes_of_bench(); at += content.size()) {
            if (::pwrite(made, content.data(), content.size(), static_cast<off_t>(at)) < 0) {
                std::abort();
            }
        }
        return made;
    }();
    return file;
}

class resident_memory {
public:
    explicit resident_memory(store_watch when)
        : range_(std::move(address_range::anywhere(size(), 0, 2 * base::mebibyte)).value()) {
        const auto mapped = map_file(range_.begin(), size(), shared_file(), 0, "file");
        choose_pages(range_.begin(), size(), huge_pages::advise, false);
        touch();
        if (!mapped) {
            std::abort();
        }
        scanner_.emplace(std::move(dirty_scanner::open(&watch_, when)).value());
    }
    resident_memory(const resident_memory&) = delete;
    resident_memory& operator=(const resident_memory&) = delete;
    ~resident_memory() { range_ = {}; }

    [[nodiscard]] static std::uint64_t size() { return bytes_of_bench(); }
    [[nodiscard]] std::byte* page(std::uint64_t number) const { return range_.begin() + number * page_size; }
    [[nodiscard]] std::byte* any_page() { return page(random_() % (size() / page_size)); }
    void touch() const {
        for (std::uint64_t i = 0; i < size() / page_size; ++i) {
            read(page(i));
        }
    }
    static void read(const std::byte* from) { static_cast<void>(*const_cast<const volatile std::byte*>(from)); }
    static void store(std::byte* to) { *const_cast<volatile std::byte*>(to) = std::byte{2}; }
    void wear(std::int64_t commits) {
        for (std::int64_t i = 0; i < commits; ++i) {
            std::byte* const page = any_page();
            store(page);
            drop_private_pages(page, page_size);
        }
        touch();
    }
    /// Drops what it finds. Returns the time of the scan.
    std::chrono::duration<double> commit() {
        scanner_->begin_commit();
        std::vector<memory_run> runs;
        const auto start = time_of_process();
        const auto done = scanner_->scan(range_.begin(), size(), runs);
        const std::chrono::duration<double> took = time_of_process() - start;
        for (const memory_run& run : runs) {
            drop_private_pages(run.address, run.pages * page_size);
            read(run.address);
        }
        if (done) {
            scanner_->end_commit();
        }
        return took;
    }
    void forget() const { drop_private_pages(range_.begin(), size()); }

private:
    write_watch watch_;
    address_range range_;
    std::optional<dirty_scanner> scanner_;
    std::mt19937_64 random_{1};
};

void scan(benchmark::State& state, store_watch when) {
    resident_memory memory(when);
    memory.wear(state.range(0));
    memory.commit();
    for ([[maybe_unused]] auto _ : state) {
        memory.store(memory.any_page());
        state.SetIterationTime(memory.commit().count());
    }
}
BENCHMARK_CAPTURE(scan, private_pages, store_watch::never)
    ->Arg(0)
    ->Arg(10'000)
    ->ArgName("worn")
    ->UseManualTime()
    ->Iterations(21);
BENCHMARK_CAPTURE(scan, watched_memory, store_watch::everywhere)
    ->Arg(0)
    ->Arg(10'000)
    ->ArgName("worn")
    ->UseManualTime()
    ->Iterations(21);

/// Of a page that is mapped to read. A thousand pages, then a commit.
void first_store(benchmark::State& state, store_watch when) {
    resident_memory memory(when);
    memory.wear(10'000);
    memory.commit();
    std::vector<std::byte*> pages(1'000);
    for ([[maybe_unused]] auto _ : state) {
        for (std::byte*& page : pages) {
            page = memory.any_page();
        }
        const auto start = time_of_process();
        for (std::byte* const page : pages) {
            memory.store(page);
        }
        state.SetIterationTime((time_of_process() - start).count() / 1'000);
        memory.commit();
    }
}
BENCHMARK_CAPTURE(first_store, private_pages, store_watch::never)->UseManualTime()->Iterations(21);
BENCHMARK_CAPTURE(first_store, watched_memory, store_watch::everywhere)->UseManualTime()->Iterations(21);

/// Of all pages, none of which is mapped.
void first_reads(benchmark::State& state, store_watch when) {
    resident_memory memory(when);
    memory.wear(10'000);
    memory.commit();
    for ([[maybe_unused]] auto _ : state) {
        memory.forget();
        const auto start = time_of_process();
        memory.touch();
        state.SetIterationTime((time_of_process() - start).count());
    }
}
BENCHMARK_CAPTURE(first_reads, private_pages, store_watch::never)->UseManualTime()->Iterations(3);
BENCHMARK_CAPTURE(first_reads, watched_memory, store_watch::everywhere)->UseManualTime()->Iterations(3);

/// The commit that begins to watch.
void begin_to_watch(benchmark::State& state) {
    for ([[maybe_unused]] auto _ : state) {
        resident_memory memory(store_watch::everywhere);
        memory.wear(10'000);
        state.SetIterationTime(memory.commit().count());
    }
}
BENCHMARK(begin_to_watch)->UseManualTime()->Iterations(3);

}  // namespace
}  // namespace holdfast::segment
