// Copies of a heap (`cp`, `holdfast copy`, a snapshot, a backup) leave space that was only reserved as holes. A store
// to a hole through a shared mapping (on tmpfs even a load) is a SIGBUS where the file system is full.
//
// The superblock says which file it was written for (persist::storage::file_identity()). A writer of a copy reserves
// what is in use before the first store to it. A reader maps zeros over holes (hole_cover). Reasons:
// docs/decisions/0022-copies.md.
//
// Invariant: is_copied() becomes false only after everything that is in use has its space, durably.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "segment/commit/heap_superblock.hpp"
#include "segment/commit/shared_session.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/holes.hpp"
#include "segment/files/segment_files.hpp"
#include "segment/format/space.hpp"

namespace holdfast::segment {

struct copied_files_parts {
    const heap_location& location;
    heap_superblock& superblock;
    segment_files& segments;
    const lane_file& lanes;
    shared_session& session;
};

/// Not thread-safe.
class copied_files {
public:
    explicit copied_files(const copied_files_parts& parts) noexcept : parts_(parts) {}
    copied_files(const copied_files&) = delete;
    copied_files& operator=(const copied_files&) = delete;
    ~copied_files() = default;

    /// Comes before anything is mapped. In a copy a writer reserves tables and objects, and after a crash in durability
    /// `atomic` or `collect` everything. A reader needs `cover`.
    base::result<void> inspect(hole_cover& cover);
    [[nodiscard]] bool is_copied() const noexcept { return parts_.superblock.is_copied(); }
    /// Comes before the first store to these pages of a copy: reserves, durably, the extents `used` and the live
    /// bitmaps of `slabs`; both sorted. Then is_copied() is false. On no_space it stays true.
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
