// Durability `atomic`: opening, closing, and recovery after a crash.
#include <chrono>
#include <new>

#include "heap/heap.hpp"

namespace holdfast::heap {

namespace {

using base::failure;
using base::failure_code;

failure out_of_memory(const std::string& path) {
    failure what;
    what.code = failure_code::out_of_memory;
    what.path = path;
    return what;
}

std::uint64_t elapsed_ns(std::chrono::steady_clock::time_point start) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
}

/// The address range to reserve for lanes.
std::uint64_t lanes_limit(std::uint64_t slots) noexcept { return lane::lanes_file_size(lane::maximum_lanes, slots); }

}  // namespace

base::result<void> engine::rebuild(const std::string& path) {
    const auto start = std::chrono::steady_clock::now();
    const bool crashed = files_->has_pending_lanes() || files_->has_pending_tracing();
    auto rebuilt = blocks_.open(files_->frontier(), crashed);
    if (!rebuilt && rebuilt.error().path.empty()) {
        rebuilt.error().path = path;
    }
    if (files_->has_pending_lanes()) {
        replayed_.time_ns += elapsed_ns(start);
    }
    return rebuilt;
}

/// Brings the lanes' records into the metadata: durably if mapped shared, else in this process alone.
base::result<void> engine::replay_lanes() {
    const auto start = std::chrono::steady_clock::now();
    const segment::superblock_on_media& superblock = files_->superblock();
    HF_TRY(files_->lanes().open(lanes_limit(superblock.lane_slots)));
    lane::replay_source source;
    source.space = files_->view();
    source.lanes = {files_->lanes().lanes(), files_->lanes().lanes_size()};
    source.slots = superblock.lane_slots;
    source.order = static_cast<lane::record_order>(superblock.record_order);
    source.heap_key = superblock.heap_key;
    source.incarnation = superblock.incarnation;
    source.frontier = superblock.frontier;
    try {
        auto plan = lane::make_replay(source);
        if (!plan) {
            failure what = std::move(plan).error();
            what.path = files_->paths().lanes();
            return what;
        }
        switch (files_->shared() ? files_->domain() : persist::domain_kind::page_cache) {
            case persist::domain_kind::page_cache: {
                persist::page_cache_domain domain;
                lane::apply(*plan, source, domain);
                break;
            }
            case persist::domain_kind::eadr: {
                persist::eadr_domain domain;
                lane::apply(*plan, source, domain);
                break;
            }
            default: {
                persist::dax_domain domain;
                lane::apply(*plan, source, domain);
            }
        }
        replayed_ = plan->report;
    } catch (const std::bad_alloc&) {
        return out_of_memory(files_->paths().lanes());
    }
    replayed_.time_ns = elapsed_ns(start);
    return {};
}

base::result<void> engine::start_atomic(const engine_options& options) {
    const segment::superblock_on_media& superblock = files_->superblock();
    // The number of slots fixes where each lane lies.
    const std::uint64_t slots = superblock.lane_slots != 0 ? superblock.lane_slots : options.lane_slots;
    if (files_->lanes().lanes() == nullptr) {
        HF_TRY(files_->lanes().open(lanes_limit(slots)));
    }
    lane::lane_options lanes;
    lanes.heap_key = superblock.heap_key;
    lanes.slots = slots;
    lanes.order = files_->domain() == persist::domain_kind::page_cache ? lane::record_order::in_flight
                                                                       : lane::record_order::clock;
    lanes.checkpoint_time = superblock.checkpoint_clock;
    if (files_->has_pending_lanes()) {  // After a crash, and replayed by now. In a clean heap no lane counts.
        const std::span<const std::byte> file(files_->lanes().lanes(), files_->lanes().lanes_size());
        HF_TRY_ASSIGN(lanes.checkpoint_time, lane::read_checkpoint_time(file, superblock.heap_key));
        HF_TRY_ASSIGN(lanes.lane_count, lane::read_lane_count(file, file.size(), slots, superblock.heap_key));
    }
    lanes.incarnation = superblock.incarnation + 1;
    objects_.persist_with([this](const void* begin, std::uint64_t bytes) {
        atomic_->flush(begin, bytes);
        atomic_->drain();
    });
    // Seals the space for records; from the next step on, recovery looks there (LANE-26).
    HF_TRY_ASSIGN(atomic_, make_atomic_operations(files_->domain(), files_->view(), files_->lanes(), blocks_, lanes));
    if (lanes.order == lane::record_order::clock) {
        settle_.of = atomic_.get();
        extents_.space().set_settling(settle_);
    }
    return files_->session().begin_incarnation(static_cast<std::uint32_t>(slots),
                                               static_cast<std::uint32_t>(lanes.order));
}

/// After a crash: keeps an object iff its block is allocated, or before blocks are known, iff its record is complete.
base::result<void> engine::repair_objects(bool blocks_are_known) {
    if (flushes_recovery()) {  // cells must become free in clear_cells()'s order, on media too
        objects_.persist_with([this](const void* begin, std::uint64_t bytes) { persist_recovery(begin, bytes); });
    }
    return objects_.repair([this, blocks_are_known](std::uint64_t offset) -> std::uint64_t {
        if (!blocks_are_known) {
            return 1;
        }
        if (offset >= base::to_bytes(files_->frontier())) {
            return 0;
        }
        const auto size = blocks_.inspect().usable_size(files_->view().address({offset}));
        return size ? size.value() : 0;
    });
}

base::result<void> engine::close_atomic() {
    HF_TRY(shorten(kept_at_the_end(files_->frontier()), nullptr));
    atomic_->checkpoint();
    const std::uint64_t clock = atomic_->lanes().checkpoint_time();
    HF_TRY(files_->session().close(clock));
    blocks_.close();
    objects_.persist_with({});
    settle_.of = nullptr;
    destinations_ = nullptr;
    atomic_.reset();
    return {};
}

}  // namespace holdfast::heap
