#include "heap/heap_recovery.hpp"

#include <chrono>
#include <new>
#include <utility>
#include <vector>

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

template <persist::persistence_domain Domain>
void persist_in(Domain domain, const void* begin, std::uint64_t bytes) {
    domain.flush(begin, bytes, "trace.flush");
    domain.fence("trace.fence");
}

void persist_in(segment::heap_files& files, const void* begin, std::uint64_t bytes) {
    switch (files.domain()) {
        case persist::domain_kind::eadr: return persist_in(persist::eadr_domain(), begin, bytes);
        case persist::domain_kind::disk:
            return persist_in(persist::disk_domain(files.session().memory()), begin, bytes);
        default: return persist_in(persist::dax_domain(), begin, bytes);
    }
}

}  // namespace

bool heap_recovery::is_pending() const noexcept {
    return heap_.files().has_pending_lanes() || heap_.files().has_pending_tracing();
}

bool heap_recovery::flushes() const noexcept {
    return heap_.files().shared() && heap_.files().domain() != persist::domain_kind::page_cache;
}

/// Whether a loss of power may undo stores that are seen here, though this session promises more than the crashed one
/// (HEAP-22). Where both are in `atomic` and in one domain, records say what is not durable. A trace sees every store
/// (TRACE-8). In `commit` the open has synced every file.
bool heap_recovery::promises_more() const noexcept {
    const segment::heap_files& files = heap_.files();
    if (!flushes() || !is_pending()) {
        return false;
    }
    const auto order = static_cast<lane::record_order>(files.superblock().record_order);
    return files.has_pending_tracing() || order != lane::order_in(files.domain());
}

base::result<recovered_heap> heap_recovery::run(const std::string& path, trace_mode mode,
                                                const before_trace_call& before) {
    if (promises_more()) {
        HF_TRY(heap_.files().session().sync_after_crash());
    }
    if (heap_.files().has_pending_lanes()) {
        HF_TRY(replay_lanes());
    } else if (heap_.files().has_pending_tracing()) {
        HF_TRY(trace_after_crash(mode, before));
    }
    HF_TRY(rebuild(path));
    if (is_pending()) {
        if (may_show_lost_pages()) {
            store_again();
        }
        HF_TRY(repair_objects(true));
    }
    return std::move(done_);
}

base::result<void> heap_recovery::replay_lanes() {
    const auto start = std::chrono::steady_clock::now();
    segment::heap_files& files = heap_.files();
    const segment::superblock_on_media& superblock = files.superblock();
    HF_TRY(heap_.files().lanes().open(segment::shape_of_lanes(superblock.lane_slots)));
    lane::replay_source source;
    source.space = files.view();
    source.lanes = {files.lanes().lanes(), files.lanes().lanes_size()};
    source.slots = superblock.lane_slots;
    source.order = static_cast<lane::record_order>(superblock.record_order);
    source.heap_key = superblock.heap_key;
    source.incarnation = superblock.incarnation;
    source.frontier = superblock.frontier;
    source.stores_again = may_show_lost_pages();
    try {
        std::vector<lane::record_on_media> log;
        auto plan = make_replay(source, log);
        if (!plan) {
            failure what = std::move(plan).error();
            what.path = what.path.empty() ? files.lanes().path() : what.path;
            return what;
        }
        HF_TRY(back_bitmaps(*plan));
        apply(*plan, source);
        done_.replayed = plan->report;
    } catch (const std::bad_alloc&) {
        return out_of_memory(files.lanes().path());
    }
    done_.replayed.time_ns = elapsed_ns(start);
    return check_synced();
}

/// `log` holds the records that the plan refers to.
base::result<lane::replay_plan> heap_recovery::make_replay(lane::replay_source& source,
                                                           std::vector<lane::record_on_media>& log) {
    if (source.order == lane::record_order::logged) {
        segment::heap_files& files = heap_.files();
        HF_TRY_ASSIGN(const auto last, lane::read_checkpoint(source.lanes, source.heap_key));
        HF_TRY_ASSIGN(log, lane::read_log({files.lanes().log(), source.heap_key, source.incarnation}, last,
                                          files.shared() ? lane::log_access::recover : lane::log_access::look));
        source.log = log;
    }
    return lane::make_replay(source);
}

base::result<void> heap_recovery::back_bitmaps(const lane::replay_plan& plan) {
    const segment::space_view& space = heap_.files().view();
    for (const lane::word_write& write : plan.writes) {
        if (const auto granule = space.granule_of_bitmap(write.word)) {
            HF_TRY(heap_.files().bitmaps().back_again(*granule));
        }
    }
    return {};
}

/// A log is replayed as on a disk: after a loss of power in the middle its records must be there, as long as a word is
/// that was stored because of them.
void heap_recovery::apply(const lane::replay_plan& plan, const lane::replay_source& source) {
    const auto apply_in = [&](auto domain) { lane::apply(plan, source, domain); };
    segment::heap_files& files = heap_.files();
    const bool as_on_a_disk =
        source.order == lane::record_order::logged || files.domain() == persist::domain_kind::disk;
    if (!files.shared() || (!as_on_a_disk && files.domain() == persist::domain_kind::page_cache)) {
        apply_in(persist::page_cache_domain());
    } else if (as_on_a_disk) {
        apply_in(persist::disk_domain(files.session().memory()));
    } else if (files.domain() == persist::domain_kind::eadr) {
        apply_in(persist::eadr_domain());
    } else {
        apply_in(persist::dax_domain());
    }
}

base::result<void> heap_recovery::check_synced() const {
    if (heap_.files().session().memory().has_failed()) {
        return heap_.files().session().memory().failure();
    }
    return {};
}

base::result<void> heap_recovery::trace_after_crash(trace_mode mode, const before_trace_call& before) {
    segment::heap_files& files = heap_.files();
    std::vector<std::uint64_t> more_roots;
    if (before) {
        before(heap_, more_roots);  // may throw: nothing has changed yet
    }
    try {
        const auto flush = [&files](const void* begin, std::uint64_t bytes) { persist_in(files, begin, bytes); };
        const auto back = [&files](base::granule slab) { return files.bitmaps().back_again(slab); };
        HF_TRY(repair_objects(false));  // a record whose write was cut off is no root
        HF_TRY_ASSIGN(std::vector<std::uint64_t> roots, object_roots(heap_.objects()));
        roots.insert(roots.end(), more_roots.begin(), more_roots.end());
        trace_options options;
        options.mode = mode;
        if (mode == trace_mode::precise) {
            HF_TRY(heap_.types().load(heap_.objects()));
        }
        options.raw_pointers = (files.superblock().flags & segment::flag_same_address) != 0;
        auto traced =
            recover_by_tracing(files.view(), heap_.extents(), files.frontier(), roots, heap_.types(), options,
                               flushes() ? std::optional<trace_flush>(flush) : std::nullopt, trace_back(back));
        if (!traced) {
            failure what = std::move(traced).error();
            what.path = what.path.empty() ? files.paths().directory() : what.path;
            return what;
        }
        done_.traced = std::move(*traced);
        return {};
    } catch (const std::bad_alloc&) {
        return out_of_memory(files.paths().directory());
    }
}

base::result<void> heap_recovery::rebuild(const std::string& path) {
    const auto start = std::chrono::steady_clock::now();
    auto rebuilt = heap_.blocks().open(heap_.files().frontier(), is_pending());
    if (!rebuilt && rebuilt.error().path.empty()) {
        rebuilt.error().path = path;
    }
    if (heap_.files().has_pending_lanes()) {
        done_.replayed.time_ns += elapsed_ns(start);
    }
    return rebuilt;
}

/// LANE-42. A copy's files are others than those that a write failed for.
bool heap_recovery::may_show_lost_pages() {
    segment::heap_files& files = heap_.files();
    const auto order = static_cast<lane::record_order>(files.superblock().record_order);
    return files.shared() && files.has_pending_lanes() && order == lane::record_order::logged &&
           !files.copies().is_copied();
}

/// LANE-42, for what no record says.
void heap_recovery::store_again() {
    segment::heap_files& files = heap_.files();
    const auto store = [](std::uint64_t& word) { persist::store_word(word, word); };
    heap_.extents().for_each_free([&](const extent::extent& run) { store(files.view().page_entry_word(run.start)); });
    for (std::uint64_t at = 0; at < files.objects_size(); at += base::page_size) {
        store(*reinterpret_cast<std::uint64_t*>(files.objects() + at));
    }
    persist_in(files, files.objects(), files.objects_size());
}

/// Keeps objects with an allocated block or, while blocks are unknown, a complete record.
base::result<void> heap_recovery::repair_objects(bool blocks_are_known) {
    if (flushes()) {  // cells become free in clear_cells()'s order, on media too
        heap_.objects().persist_with(
            [&files = heap_.files()](const void* begin, std::uint64_t bytes) { persist_in(files, begin, bytes); });
    }
    return heap_.objects().repair([this, blocks_are_known](std::uint64_t offset) -> std::uint64_t {
        return blocks_are_known ? block_size_at(heap_, offset) : 1;
    });
}

}  // namespace holdfast::heap
