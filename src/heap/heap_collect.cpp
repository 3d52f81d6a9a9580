// How a heap is opened and closed in durability `collect`, and what a crash of it asks for.
#include "heap/heap.hpp"

namespace holdfast::heap {

using base::failure;
using base::failure_code;

/// The heap is recovered, and mapped shared: from here on nothing is durable but the headers of extents and slabs.
base::result<void> engine::start_collect() {
    HF_TRY_ASSIGN(header_operations_, make_collect_operations(files_->domain(), files_->view(), blocks_));
    headers_ = header_operations_.get();
    objects_.persist_with([this](const void* begin, std::uint64_t bytes) { persist(begin, bytes); });
    collects_ = true;
    return files_->begin_tracing();
}

/// Which blocks live is unknown.
base::result<void> engine::trace_after_crash() {
    return failure{failure_code::unsupported, files_->paths().directory(),   "state", "a crash in durability collect",
                   "a heap that was closed",  "this version does not trace", 0};
}

base::result<void> engine::close_collect() {
    HF_TRY(shorten(kept_at_the_end(files_->frontier()), nullptr));
    // All bitmaps are what the program holds: the next open has nothing to trace.
    HF_TRY(files_->close_shared(files_->superblock().checkpoint_clock));
    blocks_.close();
    objects_.persist_with({});
    headers_ = nullptr;
    header_operations_.reset();
    collects_ = false;
    return {};
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
