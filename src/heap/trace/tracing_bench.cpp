// The phases of a trace after a crash, with the heap of resur (Makalu, thesis 5.13.2): `mib` MiB of reachable blocks in
// 512 lists, on anonymous memory.
#include <cstdint>
#include <random>

#include <benchmark/benchmark.h>

#include "heap/trace/trace_test_support.hpp"

namespace holdfast::heap {
namespace {

void recover_resur(benchmark::State& state) {
    const auto bytes = static_cast<std::uint64_t>(state.range(0)) * base::mebibyte;
    traced_heap heap(4 * base::gibibyte, 8 * base::gibibyte);
    std::mt19937_64 random(42);
    for (std::uint64_t filled = 0; filled < bytes;) {
        const std::uint64_t size = 16 + random() % 2033;
        const std::uint64_t block = heap.allocate(size);
        const std::uint64_t root = random() % root_count * sizeof(std::uint64_t);
        if (!segment::is_null_pointer(heap.word(root))) {
            heap.point(block, segment::decode_pointer(root, heap.word(root)));
        }
        heap.point(root, block);
        filled += size;
    }
    trace_options options;
    options.threads = static_cast<unsigned>(state.range(1));
    trace_report sum;
    for ([[maybe_unused]] auto _ : state) {
        state.PauseTiming();
        heap.crash(random());
        state.ResumeTiming();
        auto traced = heap.trace({}, options);
        if (!traced) {
            state.SkipWithError(traced.error().message().c_str());
            break;
        }
        sum.prepare_ns += traced->prepare_ns;
        sum.mark_ns += traced->mark_ns;
        sum.sweep_ns += traced->sweep_ns;
        sum.blocks_reached = traced->blocks_reached;
    }
    const auto each_ms = [&state](std::uint64_t ns) {
        return benchmark::Counter(static_cast<double>(ns) / 1e6 / static_cast<double>(state.iterations()));
    };
    state.counters["prepare_ms"] = each_ms(sum.prepare_ns);
    state.counters["mark_ms"] = each_ms(sum.mark_ns);
    state.counters["sweep_ms"] = each_ms(sum.sweep_ns);
    state.counters["blocks"] = benchmark::Counter(static_cast<double>(sum.blocks_reached));
}
BENCHMARK(recover_resur)->ArgsProduct({{16, 512}, {1, 2}})->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace holdfast::heap
