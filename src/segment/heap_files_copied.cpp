// Copies of a heap. `cp`, `holdfast copy`, a snapshot and a restored backup carry content, and leave space that was
// only reserved as holes. A store to a hole through a shared mapping asks the file system for space; on tmpfs even a
// load does. On a full file system that is a SIGBUS.
//
// The superblock says which file it was written for (persist::storage::birth()); in a copy, the file is another one. A
// writer of a copy reserves what is in use before the first store to it, or fails with no_space. A reader, who must
// change nothing, maps zeros of its own where the file has holes. Reasons: docs/decisions/0022-copies.md.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "segment/heap_files.hpp"
#include "segment/transaction.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using persist::access_mode;

/// Adds to a failure to reserve what the user can do.
base::result<void> with_hint(base::result<void> reserved) {
    if (!reserved && reserved.error().hint.empty()) {
        reserved.error().hint =
            "the heap was copied without the space that it had reserved, and needs it before it can be changed; make "
            "room, or open it read-only";
    }
    return reserved;
}

}  // namespace

/// Comes before anything is mapped.
base::result<void> heap_files::look_whether_copied() {
    HF_TRY_ASSIGN(birth_, storage().birth(paths_.superblock()));
    copied_ = superblock_.home != birth_;
    return copied_ && mode_ == access_mode::read_write ? with_hint(reserve_copied_tables()) : base::result<void>();
}

/// Reserves what an open reads and a recovery changes. After a crash in durability `atomic` or `collect` nobody knows
/// yet what is in use: then everything is reserved, and what turns out to be free goes back when it decays.
base::result<void> heap_files::reserve_copied_tables() {
    const bool all = has_pending_lanes() || has_pending_tracing();
    const geometry shape = geometry_of(superblock_);
    HF_TRY(check_room(all ? superblock_.frontier : 0));
    for (std::uint64_t index = 0; index < base::divide_up(superblock_.frontier, shape.segment_size); ++index) {
        HF_TRY(reserve_copied_segment(index, all));
    }
    HF_TRY_ASSIGN(auto objects, storage().open(paths_.objects(), access_mode::read_write));
    return objects->allocate(0, superblock_.objects_size, "copied.objects");
}

/// Fails where the file system has less than `wanted` bytes for the heap, including those that the heap has already. To
/// find out half way would take the space that is left from everybody else. A heap in several directories is not
/// checked: they may share a file system or not.
base::result<void> heap_files::check_room(std::uint64_t wanted) const {
    if (nodes() != 0) {
        return {};
    }
    HF_TRY_ASSIGN(const file_statistics sizes, statistics());
    HF_TRY_ASSIGN(const std::uint64_t available, storage().available(paths_.directory()));
    if (wanted <= sizes.charged_bytes || wanted - sizes.charged_bytes <= available) {
        return {};
    }
    return failure{failure_code::no_space,
                   paths_.directory(),
                   "free space",
                   fmt::format("{} bytes", available),
                   fmt::format("at least {}", wanted - sizes.charged_bytes),
                   {},
                   0};
}

base::result<void> heap_files::reserve_copied_segment(std::uint64_t index, bool all) {
    const geometry& shape = view_.shape();
    const std::uint64_t used = std::min(shape.segment_size, superblock_.frontier - index * shape.segment_size);
    HF_TRY_ASSIGN(auto file, storage().open(paths_.segment(index), access_mode::read_write));
    const auto preferred = near(index);
    HF_TRY(allocate_tables(*file, shape, 0, used / page_size));
    HF_TRY_ASSIGN(const bool reads_take_space, persist::reading_takes_space(*file));
    if (reads_take_space) {
        // Pages that are no longer in use may still have sums, and a check of these sums reads the pages.
        HF_TRY(file->allocate(shape.segment_size, shape.metadata_size(), "copied.metadata"));
    }
    if (!all) {
        return {};
    }
    HF_TRY(file->allocate(0, used, "copied.user"));
    const std::uint64_t bitmaps = base::align_up(used / base::granule_size * bitmap_size, page_size);
    return file->allocate(shape.segment_size + shape.bitmaps_at(), bitmaps, "copied.bitmaps");
}

base::result<void> heap_files::reserve_copied(const free_runs& used, const free_runs& slabs) {
    HF_ASSERT(copied_ && mode_ == access_mode::read_write);
    std::uint64_t wanted = 0;
    for (const auto& run : used) {
        wanted += base::to_bytes(run.second);
    }
    HF_TRY(with_hint(check_room(wanted)));
    const auto reserve = [this](const free_runs& runs, auto place_of) -> base::result<void> {
        for (const auto& [start, length] : runs) {
            HF_TRY(
                for_each_file(start, length,
                              [&](persist::file& file, std::uint64_t first, std::uint64_t count) -> base::result<void> {
                                  const auto [offset, bytes] = place_of(first, count);
                                  return with_hint(file.allocate(offset, bytes, "copied.used"));
                              }));
        }
        return {};
    };
    HF_TRY(reserve(used, [](std::uint64_t first, std::uint64_t count) {
        return std::pair{first * page_size, count * page_size};
    }));
    HF_TRY(reserve(slabs, [&shape = view_.shape()](std::uint64_t first, std::uint64_t count) {
        const auto place = [&](std::uint64_t page) { return page / base::pages_per_granule * bitmap_size; };
        const std::uint64_t begin = base::align_down(place(first), page_size);
        const std::uint64_t end = base::align_up(place(first + count), page_size);
        return std::pair{shape.segment_size + shape.bitmaps_at() + begin, end - begin};
    }));
    if (!has_pending_lanes()) {
        // No record in the lanes counts. An open in durability `atomic` makes new lanes.
        HF_TRY(storage().remove(paths_.lanes(), "copied.lanes.remove"));
        HF_TRY(storage().sync_directory(paths_.directory(), "copied.lanes.remove.sync"));
    }
    // A power loss must not undo the reservation after the superblock says that it is done.
    HF_TRY(sync_shared());
    const base::scoped_lock lock(superblock_mutex_);
    superblock_on_media next = superblock_;
    next.home = birth_;
    HF_TRY(write_state(storage(), paths_, next, next.state));
    superblock_ = next;
    copied_ = false;
    return {};
}

/// For a reader: maps zeros of this process over the holes in the windows, where the file system takes space to read a
/// hole.
base::result<void> heap_files::cover_holes(persist::file& file, std::span<const mapped_window> windows) {
    HF_TRY_ASSIGN(const bool takes_space, persist::reading_takes_space(file));
    if (!takes_space) {
        return {};
    }
    HF_TRY_ASSIGN(const persist::file_backing backing, persist::backing_of(file));
    const std::uint64_t most = most_ranges();
    for (const mapped_window& window : windows) {
        const std::uint64_t end = window.offset + window.size;
        auto next = std::ranges::upper_bound(backing.ranges, window.offset, {}, &persist::file_range::end);
        for (std::uint64_t at = window.offset; at < end;) {
            const bool inside = next != backing.ranges.end() && next->begin < end;
            const std::uint64_t hole_end = inside ? base::align_down(std::max(at, next->begin), page_size) : end;
            if (at < hole_end) {
                if (++covered_holes_ > most) {
                    return failure{failure_code::limit,
                                   file.path(),
                                   "holes",
                                   fmt::format("more than {}", most),
                                   "at most as many, each a mapping",
                                   "the heap was copied without the space that it had reserved; open it for writing "
                                   "once, which reserves it",
                                   0};
                }
                HF_TRY(map_zeroed(window.address + (at - window.offset), hole_end - at, false));
            }
            at = inside ? std::min(end, base::align_up(next->end, page_size)) : end;
            next += inside ? 1 : 0;
        }
    }
    return {};
}

}  // namespace holdfast::segment
