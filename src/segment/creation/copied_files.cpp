#include "segment/creation/copied_files.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/units.hpp"
#include "persist/backing.hpp"
#include "segment/files/heap_paths.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using persist::access_mode;

base::result<void> with_hint(base::result<void> reserved) {
    if (!reserved && reserved.error().hint.empty()) {
        reserved.error().hint =
            "the heap was copied without the space that it had reserved, and needs it before it can be changed; make "
            "room, or open it read-only";
    }
    return reserved;
}

}  // namespace

base::result<void> copied_files::inspect(hole_cover& cover) {
    HF_TRY(parts_.superblock.check_whether_copied());
    if (!is_copied()) {
        return {};
    }
    if (parts_.location.is_writer()) {
        return with_hint(reserve_tables());
    }
    cover.require();
    return {};
}

/// After a crash in durability `atomic` or `collect` nobody knows what is in use: everything is reserved.
base::result<void> copied_files::reserve_tables() {
    const bool all = parts_.superblock.has_pending_lanes() || parts_.superblock.has_pending_tracing();
    const geometry shape = parts_.superblock.shape();
    HF_TRY(check_room(all ? parts_.superblock.now().frontier : 0));
    for (std::uint64_t index = 0; index < base::divide_up(parts_.superblock.now().frontier, shape.segment_size);
         ++index) {
        HF_TRY(reserve_segment(index, all));
    }
    HF_TRY_ASSIGN(auto objects,
                  parts_.location.storage().open(parts_.location.paths().objects(), access_mode::read_write));
    return objects->allocate(0, parts_.superblock.now().objects_size, "copied.objects");
}

/// Running out half way would take the rest of the space from everybody else. Several directories may share a file
/// system or not: they are not checked.
base::result<void> copied_files::check_room(std::uint64_t wanted) const {
    if (parts_.location.paths().nodes() != 0) {
        return {};
    }
    HF_TRY_ASSIGN(const file_statistics sizes, parts_.location.sizes());
    HF_TRY_ASSIGN(const std::uint64_t available,
                  parts_.location.storage().available(parts_.location.paths().directory()));
    if (wanted <= sizes.charged_bytes || wanted - sizes.charged_bytes <= available) {
        return {};
    }
    return failure{failure_code::no_space,
                   parts_.location.paths().directory(),
                   "free space",
                   fmt::format("{} bytes", available),
                   fmt::format("at least {}", wanted - sizes.charged_bytes),
                   {},
                   0};
}

base::result<void> copied_files::reserve_segment(std::uint64_t index, bool all) {
    const geometry shape = parts_.superblock.shape();
    const std::uint64_t used =
        std::min(shape.segment_size, parts_.superblock.now().frontier - index * shape.segment_size);
    HF_TRY_ASSIGN(auto file,
                  parts_.location.storage().open(parts_.location.paths().segment(index), access_mode::read_write));
    const auto preferred = parts_.location.near(index);
    HF_TRY(segment_files::allocate_tables(*file, shape, 0, used / page_size));
    HF_TRY_ASSIGN(const bool reads_take_space, persist::reading_takes_space(*file));
    if (reads_take_space) {
        // Pages that are no longer in use may still have checksums, and a check reads them.
        HF_TRY(file->allocate(shape.segment_size, shape.metadata_size(), "copied.metadata"));
    }
    if (!all) {
        return {};
    }
    HF_TRY(file->allocate(0, used, "copied.user"));
    const std::uint64_t bitmaps = base::align_up(used / base::granule_size * bitmap_size, page_size);
    return file->allocate(shape.segment_size + shape.bitmaps_at(), bitmaps, "copied.bitmaps");
}

base::result<void> copied_files::reserve(const free_runs& used, const free_runs& slabs) {
    HF_ASSERT(is_copied() && parts_.location.is_writer());
    std::uint64_t wanted = 0;
    for (const auto& run : used) {
        wanted += base::to_bytes(run.second);
    }
    HF_TRY(with_hint(check_room(wanted)));
    HF_TRY(reserve_used(used));
    HF_TRY(reserve_bitmaps(slabs));
    HF_TRY(parts_.superblock.has_pending_lanes() ? parts_.lanes.remove_copied_log() : parts_.lanes.remove_copied());
    // A power loss must not undo the reservation that the superblock tells of.
    HF_TRY(parts_.session.sync());
    return parts_.superblock.end_copy();
}

base::result<void> copied_files::reserve_used(const free_runs& used) {
    for (const auto& [start, length] : used) {
        HF_TRY(
            parts_.segments.for_each(start, length, [](persist::file& file, std::uint64_t first, std::uint64_t count) {
                return with_hint(file.allocate(first * page_size, count * page_size, "copied.used"));
            }));
    }
    return {};
}

base::result<void> copied_files::reserve_bitmaps(const free_runs& slabs) {
    const geometry shape = parts_.superblock.shape();
    const auto place = [](std::uint64_t page) { return page / base::pages_per_granule * bitmap_size; };
    for (const auto& [start, length] : slabs) {
        HF_TRY(
            parts_.segments.for_each(start, length, [&](persist::file& file, std::uint64_t first, std::uint64_t count) {
                const std::uint64_t begin = base::align_down(place(first), page_size);
                const std::uint64_t end = base::align_up(place(first + count), page_size);
                return with_hint(
                    file.allocate(shape.segment_size + shape.bitmaps_at() + begin, end - begin, "copied.used"));
            }));
    }
    return {};
}

}  // namespace holdfast::segment
