#include "heap/trace/trace.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <new>
#include <span>

#include <fmt/format.h>

#include "heap/trace/trace_sweep.hpp"

namespace holdfast::heap {

using base::granule;
using base::pages;
using std::chrono::steady_clock;

base::result<void> trace_run::read(const extent::extent_allocator& extents, pages frontier,
                                   const block_map::quarantine& quarantined) {
    const auto start = steady_clock::now();
    const auto note = [this](const base::failure& fault) {
        ++report.slabs_quarantined;
        lines.add([&] { return fault.message(); });
    };
    HF_TRY(blocks.read(extents, frontier, note, quarantined));
    report.prepare_ns += nanoseconds_since(start);
    return {};
}

base::result<void> trace_run::mark(std::span<const std::uint64_t> objects, const type_registry& types) {
    const auto start = steady_clock::now();
    trace_marker marker(space, blocks, types, options, lines);
    HF_TRY(marker.run(objects));
    report.roots = marker.roots();
    report.threads = marker.threads();
    report.words_scanned = marker.counters().words_scanned;
    report.refused_pointers = marker.counters().refused;
    report.free_block_pointers = marker.counters().free_blocks;
    report.wild_pointers = marker.counters().wild;
    report.nulled_pointers = marker.counters().nulled;
    report.unknown_type_blocks = marker.counters().unknown_types;
    report.mark_ns = nanoseconds_since(start);
    return {};
}

void trace_run::count_freed(std::uint32_t type, std::uint64_t count, std::uint64_t bytes) {
    if (count != 0) {
        report.blocks_freed += count;
        report.bytes_freed += count * bytes;
        trace_count& kind = report.freed[{type, bytes}];
        kind.blocks += count;
        kind.bytes += count * bytes;
    }
}

trace_report trace_run::finish(steady_clock::time_point sweep_start) {
    report.sweep_ns = nanoseconds_since(sweep_start);
    report.lines = lines.take();
    return std::move(report);
}

base::result<std::vector<std::uint64_t>> object_roots(object_directory& objects) {
    std::vector<std::uint64_t> offsets;
    for (const object_kind kind : {object_kind::named, object_kind::unique, object_kind::anonymous}) {
        HF_TRY_ASSIGN(const auto entries, objects.list(kind));
        for (const object_entry& entry : entries) {
            offsets.push_back(entry.offset);
        }
    }
    return offsets;
}

namespace {

/// After a crash: makes the marks the state on media.
class offline_sweep {
public:
    offline_sweep(trace_run& run, std::optional<trace_flush> flush) noexcept : run_(run), flush_(flush) {}

    void sweep() {
        std::uint64_t done = 0;
        for (granule at{}; at < run_.blocks.granules(); ++at.value) {
            if (const auto slab = run_.blocks.slab_at(at); slab.count != 0) {
                sweep_slab(at, slab);
                if (++done % often == 0 && run_.options.progress) {
                    run_.options.progress({trace_phase::sweep, base::offset_of(at).value, run_.blocks.end()});
                }
            }
        }
        for (std::size_t i = 0; i < run_.blocks.big_blocks().size(); ++i) {
            sweep_big(i);
        }
        if (!run_.options.dry_run) {
            free_extents();  // after all bitmaps, in every order in which stores may reach the media (TRACE-4)
        }
    }

private:
    static constexpr std::uint64_t often = 4096;

    void sweep_slab(granule at, const block_map::slab_content& slab) {
        std::uint64_t* const live = run_.space.live_bitmap(at);
        std::array<std::uint64_t, slab::bitmap_words> wanted{};
        std::uint64_t reached = 0;
        for (const block_map::slab_blocks& blocks : slab) {
            reached +=
                sweep_blocks(blocks, live + blocks.first_on_media, std::span(wanted).subspan(blocks.first_on_media));
        }
        bool changed = false;
        for (std::size_t word = 0; word < wanted.size(); ++word) {
            if (live[word] != wanted[word]) {
                changed = true;
                if (!run_.options.dry_run) {
                    live[word] = wanted[word];
                }
            }
        }
        if (changed && flush_ && !run_.options.dry_run) {
            (*flush_)(live, segment::bitmap_size);
        }
        if (reached != 0) {
            ++run_.report.slabs_kept;
        } else {
            ++run_.report.slabs_freed;
            going_.push_back({base::first_page(at), {base::pages_per_granule}, segment::extent_kind::free});
        }
    }

    /// Fills in their new bits. Returns how many were reached.
    [[nodiscard]] std::uint64_t sweep_blocks(const block_map::slab_blocks& blocks, const std::uint64_t* before,
                                             std::span<std::uint64_t> wanted) {
        const slab::size_class& size = slab::size_classes[blocks.class_index];
        std::uint64_t reached = 0;
        std::uint64_t lost = 0;
        for (std::size_t word = 0; word < slab::words_of(size); ++word) {
            wanted[word] = run_.blocks.reached(blocks, word);
            reached += static_cast<std::uint64_t>(std::popcount(wanted[word]));
            lost +=
                static_cast<std::uint64_t>(std::popcount(before[word] & ~wanted[word] & slab::valid_bits(size, word)));
        }
        run_.count_reached(reached, size.block_size);
        run_.count_freed(blocks.type, lost, size.block_size);
        return reached;
    }

    void sweep_big(std::size_t index) {
        const block_map::big_block& block = run_.blocks.big_blocks()[index];
        const std::uint64_t bytes = base::to_bytes(block.length);
        if (block.opaque) {
            return;
        }
        if (run_.blocks.is_reached(index)) {
            run_.count_reached(1, bytes);
            ++run_.report.extents_kept;
        } else {
            run_.count_freed(block.type, 1, bytes);
            ++run_.report.extents_freed;
            going_.push_back({block.start, block.length, segment::extent_kind::free});
        }
    }

    /// Entries are flushed: an old one that came back would overlap extents made there later.
    void free_extents() const {
        for (const extent::extent& gone : going_) {
            std::uint64_t& entry = run_.space.page_entry_word(gone.start);
            std::atomic_ref<std::uint64_t>(entry).store(segment::encode({segment::extent_kind::free, gone.length}),
                                                        std::memory_order_release);
            if (flush_) {
                (*flush_)(&entry, sizeof entry);
            }
        }
    }

    trace_run& run_;
    std::optional<trace_flush> flush_;
    std::vector<extent::extent> going_;
};

base::result<trace_report> recover(trace_run& run, const extent::extent_allocator& extents, pages frontier,
                                   std::span<const std::uint64_t> objects, const type_registry& types,
                                   std::optional<trace_flush> flush, std::optional<trace_back> back) {
    HF_TRY(run.read(extents, frontier));
    HF_TRY(run.mark(objects, types));
    const auto start = steady_clock::now();
    for (granule at{}; back && !run.options.dry_run && at < run.blocks.granules(); ++at.value) {
        if (run.blocks.slab_at(at).count != 0) {
            HF_TRY((*back)(at));
        }
    }
    offline_sweep(run, flush).sweep();
    return run.finish(start);
}

}  // namespace

base::result<trace_report> recover_by_tracing(const segment::space_view& space, const extent::extent_allocator& extents,
                                              pages frontier, std::span<const std::uint64_t> objects,
                                              const type_registry& types, const trace_options& options,
                                              std::optional<trace_flush> flush, std::optional<trace_back> back) {
    try {
        trace_run run(space, options);
        return recover(run, extents, frontier, objects, types, flush, back);
    } catch (const std::bad_alloc&) {
        base::failure what;
        what.code = base::failure_code::out_of_memory;
        what.field = "tracing";
        return what;
    }
}

}  // namespace holdfast::heap
