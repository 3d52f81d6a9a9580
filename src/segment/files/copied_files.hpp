// Copies of a heap. `cp`, `holdfast copy`, a snapshot and a restored backup carry content, and leave space that was
// only reserved as holes. A store to a hole through a shared mapping asks the file system for space; on tmpfs even a
// load does. On a full file system that is a SIGBUS.
//
// The superblock says which file it was written for (persist::storage::file_identity()); in a copy, the file is another
// one. A writer of a copy reserves what is in use before the first store to it, or fails with no_space. A reader, who
// must change nothing, maps zeros of its own where the file has holes (hole_cover). Reasons:
// docs/decisions/0022-copies.md.
//
// Invariant: is_copied() becomes false only after everything that is in use has its space, durably.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "segment/commit/heap_superblock.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/hole_cover.hpp"
#include "segment/files/segment_files.hpp"
#include "segment/shared_session.hpp"
#include "segment/space.hpp"

namespace holdfast::segment {

/// What copied_files works with.
struct copied_files_parts {
    const heap_location& location;
    heap_superblock& superblock;
    segment_files& segments;
    const lane_file& lanes;
    shared_session& session;
};

/// Runs while the heap is opened, in one thread.
class copied_files {
public:
    explicit copied_files(const copied_files_parts& parts) noexcept : parts_(parts) {}
    copied_files(const copied_files&) = delete;
    copied_files& operator=(const copied_files&) = delete;
    ~copied_files() = default;

    /// Comes before anything is mapped. Finds out whether the heap is copied. Then a writer reserves tables and objects
    /// here; after a crash in durability `atomic` or `collect`, everything. For a reader, `cover` is required.
    base::result<void> look(hole_cover& cover);
    /// The files are copies of those of a heap: space that was reserved and never written may be holes.
    [[nodiscard]] bool is_copied() const noexcept { return parts_.superblock.is_copied(); }
    /// Reserves, durably, what is in use in a heap that is_copied(): the extents `used`, and the live bitmaps of
    /// `slabs`; both sorted. Then is_copied() is false. On no_space it stays true. Must come before the first store to
    /// any of these pages.
    base::result<void> reserve(const free_runs& used, const free_runs& slabs);

private:
    base::result<void> reserve_tables();
    base::result<void> reserve_segment(std::uint64_t index, bool all);
    base::result<void> check_room(std::uint64_t wanted) const;
    base::result<void> reserve_used(const free_runs& used);
    base::result<void> reserve_bitmaps(const free_runs& slabs);

    copied_files_parts parts_;
};

}  // namespace holdfast::segment
