#include "segment/shared_session.hpp"

#include <new>

#include "base/cancellation.hpp"
#include "persist/boot.hpp"

namespace holdfast::segment {

namespace {

using base::failure_code;

/// Whether a sync that failed so may have lost a write. Where no file could be opened, or there was no memory, it may
/// be repeated.
bool may_have_lost(const base::failure& what) noexcept {
    return what.code == failure_code::io || what.code == failure_code::no_space || what.code == failure_code::read_only;
}

}  // namespace

base::result<void> shared_session::begin_tracing() {
    return parts_.superblock.begin_session(parts_.mapping.view().base(), [&](superblock_on_media& next) {
        next.flags |= flag_tracing;
        next.boot = boot_to_say();
    });
}

base::result<void> shared_session::begin_incarnation(std::uint32_t lane_slots, std::uint32_t record_order) {
    // The head of the lanes must be on media before the superblock says that lanes count; on the page cache, too.
    HF_TRY(parts_.lanes.sync("begin.lanes.sync"));
    return parts_.superblock.begin_session(parts_.mapping.view().base(), [&](superblock_on_media& next) {
        next.flags |= flag_lanes;
        next.flags |= parts_.lanes.files() > 1 ? flag_lanes_by_node : 0;
        ++next.incarnation;
        next.lane_slots = lane_slots;
        next.record_order = record_order;
        next.boot = boot_to_say();
    });
}

std::uint64_t shared_session::boot_to_say() const noexcept {
    return parts_.location.survives_process_crash_only() ? persist::this_boot() : 0;
}

base::result<void> shared_session::check_health() const {
    if (lost_.code == failure_code::none) {
        return {};
    }
    base::failure what = lost_;
    what.code = failure_code::poisoned;
    what.hint =
        "an earlier sync failed, and what it lost is not written again; close the heap without commit and open "
        "it again";
    return what;
}

base::result<void> shared_session::sync() {
    HF_TRY(check_health());
    auto synced = sync_files();
    if (!synced && may_have_lost(synced.error())) {
        lost_.code = synced.error().code;  // the code first: the text needs memory
        lost_ = synced.error();
    }
    return synced;
}

base::result<void> shared_session::sync_files() {
    HF_TRY(parts_.segments.sync_new_names());
    HF_TRY(parts_.segments.sync(parts_.mapping.segment_count(parts_.mapping.frontier())));
    HF_TRY(parts_.objects.sync());
    return parts_.lanes.sync("shared.lanes.sync");
}

base::result<void> shared_session::sync_after_crash() {
    parts_.segments.set_names_changed(true);
    return sync();
}

base::result<void> shared_session::close(std::uint64_t checkpoint_clock) {
    if (parts_.superblock.now().state == heap_state::clean) {
        return {};
    }
    const base::cancellation_off until_done;
    HF_TRY(sync());
    try {
        auto closed = parts_.superblock.write(heap_state::clean, [checkpoint_clock](superblock_on_media& next) {
            next.flags &= ~(flag_lanes | flag_tracing);
            next.boot = 0;
            next.checkpoint_clock = checkpoint_clock;
        });
        if (!closed) {
            write_running_again();
        }
        return closed;
    } catch (const std::bad_alloc&) {
        write_running_again();
        throw;
    }
}

/// After a close that failed, media may say that the heap is clean, while the session goes on: the open after a crash
/// would recover nothing. Best effort.
void shared_session::write_running_again() noexcept {
    try {
        static_cast<void>(parts_.superblock.write(heap_state::running, [](superblock_on_media&) {}).ok());
    } catch (const std::bad_alloc&) {
        return;  // no memory for a name
    }
}

}  // namespace holdfast::segment
