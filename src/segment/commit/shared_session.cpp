#include "segment/commit/shared_session.hpp"

#include <new>

#include "base/interruption.hpp"
#include "persist/machine.hpp"
#include "persist/storage.hpp"

namespace holdfast::segment {

base::result<void> shared_session::begin_tracing() {
    return parts_.superblock.begin_session(parts_.mapping.view().base(), [&](superblock_on_media& next) {
        next.flags |= flag_tracing;
        next.boot = boot_to_say();
    });
}

base::result<void> shared_session::begin_incarnation(std::uint32_t lane_slots, std::uint32_t record_order) {
    // The head must be on media before the superblock says that lanes count; on the page cache, too.
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
    if (poison_.code == base::failure_code::none) {
        return {};
    }
    base::failure what = poison_;
    what.code = base::failure_code::poisoned;
    what.hint = "nobody knows what the storage kept; close the heap without a commit and open it again";
    return what;
}

void shared_session::poison(const base::failure& why) {
    const base::failure_code code = why.code == base::failure_code::none ? base::failure_code::io : why.code;
    poison_.code = code;  // first: the text needs memory
    memory_.fail(why.os_error);
    poison_ = why;
    poison_.code = code;
}

base::result<void> shared_session::sync_files() const {
    HF_TRY(parts_.segments.sync_new_names());
    HF_TRY(parts_.segments.sync(parts_.mapping.segment_count(parts_.mapping.frontier())));
    HF_TRY(parts_.objects.sync());
    return parts_.lanes.sync("shared.lanes.sync");
}

base::result<void> shared_session::sync() {
    HF_TRY(check_health());
    auto synced = sync_files();
    if (!synced && persist::is_failed_sync(synced.error())) {
        poison(synced.error());
    }
    return synced;
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
            go_on_after(closed.error());
        }
        return closed;
    } catch (const std::bad_alloc&) {
        go_on_after({});
        throw;
    }
}

/// A part of the failed write may be there: the next open would recover nothing of what follows.
void shared_session::go_on_after(const base::failure& why) noexcept {
    try {
        if (!parts_.superblock.write(heap_state::running, [](superblock_on_media& /*as_before*/) {})) {
            poison(why);
        }
    } catch (const std::bad_alloc&) {
        poison_.code = base::failure_code::io;  // the text needs memory
        memory_.fail(why.os_error);
    }
}

}  // namespace holdfast::segment
