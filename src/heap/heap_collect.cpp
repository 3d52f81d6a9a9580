// Durability `collect`: opening, closing, and recovery after a crash.
#include "heap/heap.hpp"

namespace holdfast::heap {

using base::failure;
using base::failure_code;

/// The heap is recovered and mapped shared.
base::result<void> engine::start_collect() {
    HF_TRY_ASSIGN(header_operations_, make_collect_operations(files_->domain(), files_->view(), extents_, blocks_));
    headers_ = header_operations_.get();
    objects_.persist_with([this](const void* begin, std::uint64_t bytes) { persist(begin, bytes); });
    collects_ = true;
    blocks_.slabs().set_traced(true);
    return files_->session().begin_tracing();
}

namespace {

template <persist::persistence_domain Domain>
void persist_in(Domain domain, const void* begin, std::uint64_t bytes) {
    domain.flush(begin, bytes, "trace.flush");
    domain.fence("trace.fence");
}

}  // namespace

bool engine::flushes_recovery() const noexcept {
    return files_->shared() && files_->domain() != persist::domain_kind::page_cache;
}

void engine::persist_recovery(const void* begin, std::uint64_t bytes) const {
    files_->domain() == persist::domain_kind::eadr ? persist_in(persist::eadr_domain(), begin, bytes)
                                                   : persist_in(persist::dax_domain(), begin, bytes);
}

/// The blocks that roots and objects reach become the allocated ones: durably if the heap is mapped shared, else in
/// this process alone.
base::result<void> engine::trace_after_crash(const engine_options& opened_with) {
    std::vector<std::uint64_t> more_roots;
    if (opened_with.before_trace) {
        opened_with.before_trace(*this, more_roots);  // may throw: nothing has changed yet
    }
    try {
        const auto flush = [this](const void* begin, std::uint64_t bytes) { persist_recovery(begin, bytes); };
        const bool flushes = flushes_recovery();
        if (flushes) {
            // Stores that the crashed program did not write back are visible to tracing, and a power loss may still
            // undo them. They become durable before anything is freed because of them (TRACE-8).
            HF_TRY(files_->session().sync());
        }
        HF_TRY(repair_objects(false));  // a record whose write was cut off is no root
        HF_TRY_ASSIGN(std::vector<std::uint64_t> roots, object_roots(objects_));
        roots.insert(roots.end(), more_roots.begin(), more_roots.end());
        trace_options options;
        options.mode = opened_with.recovery;
        if (options.mode == trace_mode::precise) {
            HF_TRY(types_.load(objects_));
        }
        options.raw_pointers = (files_->superblock().flags & segment::flag_same_address) != 0;
        auto traced = recover_by_tracing(files_->view(), extents_, files_->frontier(), roots, types_, options,
                                         flushes ? std::optional<trace_flush>(flush) : std::nullopt);
        if (!traced) {
            failure what = std::move(traced).error();
            what.path = what.path.empty() ? files_->paths().directory() : what.path;
            return what;
        }
        traced_ = std::move(*traced);
        return {};
    } catch (const std::bad_alloc&) {
        failure what;
        what.code = failure_code::out_of_memory;
        what.path = files_->paths().directory();
        return what;
    }
}

base::result<void> engine::close_collect() {
    HF_TRY(shorten(kept_at_the_end(files_->frontier()), nullptr));
    // The bitmaps must be right: the next open does not trace.
    write_back();
    HF_TRY(files_->session().close(files_->superblock().checkpoint_clock));
    blocks_.close();
    objects_.persist_with({});
    headers_ = nullptr;
    header_operations_.reset();
    collects_ = false;
    blocks_.slabs().set_traced(false);
    return {};
}

/// For a close or a copy.
void engine::write_back() noexcept {
    if (headers_ != nullptr) {
        headers_->write_back();
    } else {
        blocks_.slabs().write_bitmaps();
    }
}

void engine::flush(const void* begin, std::uint64_t bytes) noexcept {
    if (atomic_ != nullptr) {
        atomic_->flush(begin, bytes);
    } else if (headers_ != nullptr) {
        headers_->flush(begin, bytes);
    }
}

void engine::drain() noexcept {
    if (atomic_ != nullptr) {
        atomic_->drain();
    } else if (headers_ != nullptr) {
        headers_->drain();
    }
}

}  // namespace holdfast::heap
