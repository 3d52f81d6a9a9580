// Remote frees on a machine with one node: a burst is freed at home, or after a move to the other of two made-up nodes.
// The result is the time of a pair, with moves and merges.
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include "slab/nodes/node_heap_test_support.hpp"

namespace holdfast::slab {
namespace {

void burst_freed(benchmark::State& state, unsigned nodes, bool elsewhere) {
    node_heap heap(nodes, 256 * base::mebibyte);
    block_allocator& blocks = heap.blocks();
    std::vector<void*> held(static_cast<std::size_t>(state.range(0)));
    const auto move_to = [&](unsigned node) {
        if (elsewhere) {
            persist::made_up_topology::move_this_thread_to(node);
            blocks.small().follow_this_thread();
        }
    };
    for ([[maybe_unused]] auto _ : state) {
        for (void*& block : held) {
            block = blocks.allocate(64, 8);
        }
        move_to(1);
        for (void* const block : held) {
            if (!blocks.try_free(block)) {
                state.SkipWithError("free failed");
            }
        }
        move_to(0);
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK_CAPTURE(burst_freed, one_node, 1, false)->Arg(100'000);
BENCHMARK_CAPTURE(burst_freed, at_home, 2, false)->Arg(100'000);
BENCHMARK_CAPTURE(burst_freed, elsewhere, 2, true)->Arg(100'000);
BENCHMARK_CAPTURE(burst_freed, at_home_of_four, 4, false)->Arg(100'000);
BENCHMARK_CAPTURE(burst_freed, elsewhere_of_four, 4, true)->Arg(100'000);

}  // namespace
}  // namespace holdfast::slab
