#include "allocators/holdfast_heap.hpp"

namespace bench {

protocol_totals totals_of(const holdfast::manager& heap) {
    const holdfast::protocol_counters counters = heap.counters();
    return {.known = true,
            .durable_records = counters.durable_records,
            .fences = counters.fences,
            .lines_flushed = counters.lines_flushed,
            .reflushes = counters.reflushes,
            .media_bytes = counters.media_bytes,
            .checkpoints = counters.checkpoints,
            .longest_checkpoint_ns = counters.longest_checkpoint_ns};
}

holdfast::open_options heap_options_of(const allocation_run& run) {
    using domain_choice = holdfast::open_options::domain_choice;
    holdfast::open_options options;
    options.commit_on_close = false;
    if (run.durability != "atomic" && run.durability != "collect") {
        return options;
    }
    options.durability = run.durability == "atomic" ? holdfast::durability::atomic : holdfast::durability::collect;
    options.domain = run.domain == "emulated"     ? domain_choice::emulated
                     : run.domain == "page-cache" ? domain_choice::page_cache
                     : run.domain == "disk"       ? domain_choice::disk
                                                  : domain_choice::detect;
    // `dax` insists: found to be page-cache, the open fails and says so.
    options.accept_process_crash_only = run.domain == "page-cache" || run.domain == "detect";
    return options;
}

}  // namespace bench
