// An allocation and its free, in typical patterns, on anonymous memory. The result is the time of a pair.
#include <cstdint>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

block_allocator& shared_heap() {
    static test_heap heap(std::uint64_t{16} * base::gibibyte, ~std::uint64_t{0}, 64 * base::mebibyte,
                          256 * base::mebibyte);
    return heap.blocks();
}

block_allocator& hardened_heap() {
    static test_heap heap(std::uint64_t{16} * base::gibibyte, ~std::uint64_t{0}, 64 * base::mebibyte,
                          256 * base::mebibyte);
    heap.blocks().harden();
    return heap.blocks();
}

void pair_in_a_loop(benchmark::State& state) {
    block_allocator& blocks = shared_heap();
    const auto bytes = static_cast<std::size_t>(state.range(0));
    for ([[maybe_unused]] auto _ : state) {
        void* const block = blocks.allocate(bytes, 8);
        benchmark::DoNotOptimize(block);
        if (!blocks.try_free(block)) {
            state.SkipWithError("free failed");
        }
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(pair_in_a_loop)->Arg(64)->Arg(1024)->Arg(14336)->Arg(65536)->ThreadRange(1, 2)->UseRealTime();

void burst(benchmark::State& state) {
    block_allocator& blocks = shared_heap();
    const auto bytes = static_cast<std::size_t>(state.range(0));
    std::vector<void*> held(static_cast<std::size_t>(state.range(1)));
    for ([[maybe_unused]] auto _ : state) {
        for (void*& block : held) {
            block = blocks.allocate(bytes, 8);
        }
        for (void* const block : held) {
            if (!blocks.try_free(block)) {
                state.SkipWithError("free failed");
            }
        }
    }
    state.SetItemsProcessed(state.iterations() * state.range(1));
}
BENCHMARK(burst)->Args({64, 1000})->Args({64, 100'000})->Args({256, 1000})->ThreadRange(1, 2)->UseRealTime();

/// In the loop, a free without checks would load its constants only once.
template <bool Checks>
[[gnu::noinline]] bool free_by_call(block_allocator& blocks, void* block) noexcept {
    return blocks.fast_path().free<Checks>(block);
}
[[gnu::noinline]] void* allocate_by_call(block_allocator& blocks) noexcept { return blocks.allocate(64, 8); }

/// Frees in the order of `burst`; with a burst of one, in a loop of pairs.
template <bool Checks>
void checked_frees(benchmark::State& state) {
    block_allocator& blocks = shared_heap();
    std::vector<void*> held(static_cast<std::size_t>(state.range(0)));
    for ([[maybe_unused]] auto _ : state) {
        for (void*& block : held) {
            block = allocate_by_call(blocks);
        }
        for (void* const block : held) {
            if (!free_by_call<Checks>(blocks, block)) {
                state.SkipWithError("free failed");
            }
        }
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}
void hardened_frees(benchmark::State& state) {
    block_allocator& blocks = hardened_heap();
    std::vector<void*> held(static_cast<std::size_t>(state.range(0)));
    for ([[maybe_unused]] auto _ : state) {
        for (void*& block : held) {
            block = blocks.allocate(64, 8);
        }
        for (void* const block : held) {
            if (!blocks.free_exactly(block)) {
                state.SkipWithError("free failed");
            }
        }
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(hardened_frees)->Name("frees/hardened")->Arg(1)->Arg(1000)->Arg(100'000);
BENCHMARK(checked_frees<true>)->Name("frees/with_checks")->Arg(1)->Arg(1000)->Arg(100'000);
BENCHMARK(checked_frees<false>)->Name("frees/without_checks")->Arg(1)->Arg(1000)->Arg(100'000);

void replace_at_random(benchmark::State& state) {
    block_allocator& blocks = shared_heap();
    std::mt19937_64 random(42);
    std::vector<void*> held(static_cast<std::size_t>(state.range(0)));
    const auto draw_size = [&, least = static_cast<std::size_t>(state.range(1)),
                            sizes = static_cast<std::size_t>(state.range(2) - state.range(1) + 1)] {
        return least + random() % sizes;
    };
    for (void*& block : held) {
        block = blocks.allocate(draw_size(), 8);
    }
    struct step {
        std::size_t block;
        std::size_t bytes;
    };
    std::vector<step> steps(std::size_t{1} << 16U);  // drawn before, so that no generator is measured
    for (step& each : steps) {
        each = {random() % held.size(), draw_size()};
    }
    std::size_t turn = 0;
    for ([[maybe_unused]] auto _ : state) {
        const step& now = steps[turn++ % steps.size()];
        void*& block = held[now.block];
        if (!blocks.try_free(block)) {
            state.SkipWithError("free failed");
        }
        block = blocks.allocate(now.bytes, 8);
    }
    for (void* const block : held) {
        static_cast<void>(blocks.try_free(block));
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(replace_at_random)
    ->Args({1'000, 64, 64})
    ->Args({1'000, 64, 256})
    ->Args({8'192, 1, 1'000})
    ->Args({100'000, 1, 1'000})
    ->ThreadRange(1, 2)
    ->UseRealTime();

}  // namespace
}  // namespace holdfast::slab
