// Durability `atomic` or `collect`: the files are mapped shared, so a store is in the file at once; the persistence
// domain says when it is on media.
//
//   - From begin_tracing() or begin_incarnation() on until close(), the superblock on media says how to recover.
//   - What the superblock says of the lanes is durable before it says so.
//   - After a failed sync no later one succeeds, and no close: the kernel reports a lost write once.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "persist/sync.hpp"
#include "segment/commit/heap_mapping.hpp"
#include "segment/commit/heap_superblock.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/lane_file.hpp"
#include "segment/files/objects_file.hpp"
#include "segment/files/segment_files.hpp"

namespace holdfast::segment {

struct shared_session_parts {
    const heap_location& location;
    heap_superblock& superblock;
    segment_files& segments;
    const heap_mapping& mapping;
    const objects_file& objects;
    const lane_file& lanes;
};

/// Not thread-safe.
class shared_session {
public:
    explicit shared_session(const shared_session_parts& parts)
        : parts_(parts), memory_(parts.location.paths().directory()) {}
    shared_session(const shared_session&) = delete;
    shared_session& operator=(const shared_session&) = delete;
    ~shared_session() = default;

    /// After a crash from here on, the next open traces. Durable on return.
    base::result<void> begin_tracing();
    /// Comes after recovery, once the lanes are made. A crash from here on is one of the new incarnation. Durable on
    /// return.
    base::result<void> begin_incarnation(std::uint32_t lane_slots, std::uint32_t record_order);
    /// Thread-safe.
    [[nodiscard]] persist::mapped_sync& memory() noexcept { return memory_; }
    /// `poisoned` once a sync has failed.
    [[nodiscard]] base::result<void> check_health() const;
    /// All mapped pages, by system calls. Not atomic.
    base::result<void> sync();
    /// A crashed session may have left names in the page cache alone.
    base::result<void> sync_after_crash();
    /// Syncs, then marks the heap clean: no record counts any more, and no trace is needed. After a failure the session
    /// goes on, unless it is poisoned.
    base::result<void> close(std::uint64_t checkpoint_clock);

private:
    [[nodiscard]] std::uint64_t boot_to_say() const noexcept;
    [[nodiscard]] base::result<void> sync_files() const;
    void poison(const base::failure& why);
    void go_on_after(const base::failure& why) noexcept;

    shared_session_parts parts_;
    persist::mapped_sync memory_;
    base::failure poison_;
};

}  // namespace holdfast::segment
