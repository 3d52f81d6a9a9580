// A record that is durable when wait() returns, beside a synced write of a page, on the file system of TMPDIR. The
// result is the time of a record, all threads together.
#include <cstdint>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/scratch_test_support.hpp"
#include "log/log.hpp"

namespace holdfast::log {
namespace {

constexpr std::uint64_t file_size = 8 * base::mebibyte;

void synced_write(benchmark::State& state) {
    const base::scratch_directory scratch(base::disk_directory());
    log_files files(persist::posix_storage(), {scratch.path(), "log.", file_size});
    const auto file = files.make(0);
    struct alignas(base::page_size) page {
        std::byte bytes[base::page_size];
    };
    const auto content = std::make_unique<page>();
    std::uint64_t at = 0;
    if (!file) {
        state.SkipWithError("no file");
        return;
    }
    file.value()->bypass_page_cache();
    for ([[maybe_unused]] auto _ : state) {
        if (!file.value()->write_through(at, content->bytes, "bench.write")) {
            state.SkipWithError("write failed");
        }
        at = (at + base::page_size) % file_size;
    }
}
BENCHMARK(synced_write)->UseRealTime();

struct opened_log {
    base::scratch_directory scratch{base::disk_directory()};
    base::result<std::unique_ptr<log>> opened =
        log::open(persist::posix_storage(), {{scratch.path(), "log.", file_size}, 1, {}}, {},
                  [](const record& /*each*/) { return base::result<void>(); });
};

/// For all threads of a run.
opened_log& shared_log() {
    static opened_log all;
    return all;
}

void record_durable(benchmark::State& state) {
    opened_log& all = shared_log();
    const std::vector<std::byte> payload(static_cast<std::size_t>(state.range(0)));
    if (!all.opened) {
        state.SkipWithError("no log");
        return;
    }
    log& to = **all.opened;
    for ([[maybe_unused]] auto _ : state) {
        const auto end = to.append(1, payload);
        if (!end || !to.wait(end->sequence)) {
            state.SkipWithError("append failed");
            return;
        }
        if (state.thread_index() == 0) {
            to.release(*end);
        }
    }
}
BENCHMARK(record_durable)->Arg(64)->Arg(4096)->Threads(1)->Threads(8)->Threads(64)->UseRealTime();

}  // namespace
}  // namespace holdfast::log
