#include <bit>
#include <new>

#include <fmt/format.h>

#include "heap/heap.hpp"
#include "heap/trace/trace_sweep.hpp"

namespace holdfast::heap {

namespace {

using base::granule;
using std::chrono::steady_clock;

class online_sweep {
public:
    online_sweep(trace_run& run, engine& heap) noexcept : run_(run), heap_(heap) {}

    void sweep() {
        for (granule at{}; at < run_.blocks.granules(); ++at.value) {
            if (const auto slab = run_.blocks.slab_at(at); slab.count != 0) {
                const std::uint64_t before = run_.report.blocks_reached;
                for (const block_map::slab_blocks& each : slab) {
                    sweep_slab(each);
                }
                ++(run_.report.blocks_reached != before ? run_.report.slabs_kept : run_.report.slabs_freed);
                if (run_.options.progress && ++done_ % often == 0) {
                    run_.options.progress({trace_phase::sweep, base::offset_of(at).value, run_.blocks.end()});
                }
            }
        }
        for (std::size_t i = 0; i < run_.blocks.big_blocks().size(); ++i) {
            const block_map::big_block& block = run_.blocks.big_blocks()[i];
            if (block.opaque) {
                continue;
            }
            const std::uint64_t bytes = base::to_bytes(block.length);
            if (run_.blocks.is_reached(i)) {
                run_.count_reached(1, bytes);
                ++run_.report.extents_kept;
            } else if (free(base::offset_of(block.start).value)) {
                run_.count_freed(block.type, 1, bytes);
                ++run_.report.extents_freed;
            }
        }
    }

private:
    static constexpr std::uint64_t often = 4096;

    void sweep_slab(const block_map::slab_blocks& slab) {
        const slab::size_class& size = slab::size_classes[slab.class_index];
        const std::uint64_t first = base::offset_of(slab.at).value;
        std::uint64_t reached = 0;
        std::uint64_t freed = 0;
        for (std::size_t word = 0; word < slab::words_of(size); ++word) {
            const std::uint64_t kept = run_.blocks.reached(slab, word);
            reached += static_cast<std::uint64_t>(std::popcount(kept));
            for (std::uint64_t lost = run_.blocks.live(slab, word) & ~kept; lost != 0; lost &= lost - 1) {
                const std::uint64_t index = word * 64 + static_cast<std::uint64_t>(std::countr_zero(lost));
                freed += free(first + index * size.block_size) ? 1U : 0U;
            }
        }
        run_.count_reached(reached, size.block_size);
        run_.count_freed(slab.type, freed, size.block_size);
    }

    [[nodiscard]] bool free(std::uint64_t offset) {
        if (run_.options.dry_run || heap_.free_at_once(heap_.files().view().address({offset}))) {
            return true;
        }
        run_.lines.add([] { return engine::last_failure().message(); });
        return false;
    }

    trace_run& run_;
    engine& heap_;
    std::uint64_t done_ = 0;
};

base::result<trace_report> trace(trace_run& run, engine& heap, const type_registry& types) {
    const std::lock_guard guard(heap.object_mutex());
    HF_TRY_ASSIGN(std::vector<std::uint64_t> objects, object_roots(heap.objects()));
    const std::vector<std::uint64_t> pinned = heap.pins().blocks();
    objects.insert(objects.end(), pinned.begin(), pinned.end());
    HF_TRY(heap.files().bitmaps().admit_all());
    heap.blocks().flush_extents();
    const std::uint64_t records = record_count(heap);
    HF_TRY(run.read(heap.extents(), heap.files().frontier(),
                    [&heap](granule slab) { return heap.blocks().inspect().occupancy(slab).block_size == 0; }));
    const auto start = steady_clock::now();
    HF_TRY(run.blocks.only_live());
    heap.blocks().inspect().for_each_block(
        [&run](base::heap_offset offset, std::uint64_t size, std::uint32_t /*type*/) {
            if (size <= slab::maximum_small_size) {
                run.blocks.set_live(offset.value, size);
            }
        });
    run.report.prepare_ns += nanoseconds_since(start);
    HF_TRY(run.mark(objects, types));
    // A pointer that moves may be seen neither where it was nor where it is.
    if (!run.options.dry_run && record_count(heap) != records) {
        return base::failure{base::failure_code::concurrent_modification,
                             heap.files().paths().directory(),
                             "collect",
                             "calls of other threads while blocks were marked",
                             "all other threads standing still",
                             "nothing was freed",
                             0};
    }
    const auto sweep_start = steady_clock::now();
    online_sweep(run, heap).sweep();
    if (!run.options.dry_run) {
        heap.blocks().small().release_unused();
    }
    return run.finish(sweep_start);
}

}  // namespace

base::result<trace_report> trace_open_heap(engine& heap, const type_registry& types, const trace_options& options) {
    HF_TRY(heap.check_process());
    if (heap.read_only() && !options.dry_run) {
        return base::failure{base::failure_code::read_only,
                             heap.files().paths().directory(),
                             "collect",
                             "a heap opened read-only",
                             "a writer, or a dry run",
                             {},
                             0};
    }
    base::failure what;
    try {
        trace_run run(heap.files().view(), options);
        auto traced = trace(run, heap, types);
        if (traced) {
            return traced;
        }
        what = std::move(traced).error();
    } catch (const std::bad_alloc&) {
        what.code = base::failure_code::out_of_memory;
        what.field = "tracing";
    }
    if (what.path.empty()) {
        what.path = heap.files().paths().directory();
    }
    return what;
}

}  // namespace holdfast::heap
