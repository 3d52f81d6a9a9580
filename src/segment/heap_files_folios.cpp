// Shared mappings of files with holes, where the page cache has folios of many pages.
//
// Linux keeps files in folios of up to 2 MiB (XFS since 5.18, ext4 since 6.16), which it makes when it reads ahead. The
// first store to a page of a clean one needs space for all of it: where a page beside is a hole, because free space
// went back or a table has no entries there yet, the hole is filled again, and on a full file system the store is a
// SIGBUS, though its own page has its space. So mappings of what has holes ask for no more than they touch, a page at a
// time, and folios from before are split. tmpfs and DAX have space by the page. Why so: docs/decisions/0023-folios.md.
#include <algorithm>

#include "persist/backing.hpp"
#include "segment/heap_files.hpp"

namespace holdfast::segment {

using base::page_size;
using persist::access_mode;

namespace {

constexpr std::uint64_t largest_folio = 2 * base::mebibyte;

}  // namespace

base::result<bool> heap_files::has_folios(persist::file& file) const {
    return sharing_ == page_sharing::shared_pages ? persist::stores_fill_folios(file) : base::result<bool>(false);
}

/// The user pages of a segment that has holes, or is about to get some.
void heap_files::keep_folios_small(std::uint64_t index) {
    if (index >= segments_at_open_) {
        return;  // so they are, from the beginning
    }
    const base::scoped_lock lock(small_folios_mutex_);
    if (small_folios_.size() < segments_at_open_) {
        small_folios_.resize(segments_at_open_, false);
    }
    if (!small_folios_[index]) {
        keep_pages_small(view_.base() + index * view_.shape().segment_size, view_.shape().segment_size);
        small_folios_[index] = true;
    }
}

/// Comes before user pages of a segment become a hole.
base::result<void> heap_files::part_folios(persist::file& file, std::uint64_t index, std::uint64_t first,
                                           std::uint64_t count) {
    HF_TRY_ASSIGN(const bool folios, has_folios(file));
    if (!folios) {
        return {};
    }
    keep_folios_small(index);
    if (index < segments_at_open_) {
        // There may be large folios: read ahead while the segment had no holes, or by who read the file before.
        clean_around(file, first * page_size);
        clean_around(file, (first + count) * page_size);
    }
    return {};
}

/// A segment, or new pages of it from `from_page` on, has just been mapped.
base::result<void> heap_files::choose_folios(persist::file& file, std::uint64_t index, std::uint64_t from_page,
                                             std::uint64_t end_page, bool fresh) {
    HF_TRY_ASSIGN(const bool folios, has_folios(file));
    if (!folios) {
        return {};
    }
    const geometry& shape = view_.shape();
    if (from_page == 0) {
        // Tables get their space as the heap grows, and bitmaps when they are used: there are holes.
        std::byte* const tables = view_.metadata_of(index);
        keep_pages_small(tables, shape.metadata_size());
        if (!fresh) {
            read_ahead(tables, shape.page_entries_at() + end_page * page_entry_size);
        }
    }
    if (fresh) {
        // What is new is in the cache as it is stored to: nothing is read ahead of it anyway.
        keep_pages_small(view_.base() + index * shape.segment_size + from_page * page_size,
                         (end_page - from_page) * page_size);
        return {};
    }
    segments_at_open_ = std::max(segments_at_open_, index + 1);
    HF_TRY_ASSIGN(const persist::file_backing backing, persist::backing_of(file));
    const auto holds_all = [&](const persist::file_range& range) {
        return range.begin == 0 && range.end >= end_page * page_size;
    };
    if (std::ranges::none_of(backing.ranges, holds_all)) {
        keep_folios_small(index);
    }
    return {};
}

/// Before anything is mapped: what somebody read ahead, or stored and left to the cache, is split where holes begin and
/// end. To punch a hole again changes nothing in the file.
base::result<void> heap_files::split_folios() {
    for (std::uint64_t index = 0; index < base::divide_up(superblock_.frontier, view_.shape().segment_size); ++index) {
        HF_TRY_ASSIGN(auto file, storage().open(paths_.segment(index), access_mode::read_write));
        HF_TRY_ASSIGN(const bool folios, has_folios(*file));
        if (!folios) {
            continue;
        }
        HF_TRY_ASSIGN(const std::uint64_t size, file->size());
        HF_TRY_ASSIGN(const persist::file_backing backing, persist::backing_of(*file));
        std::uint64_t at = 0;
        for (const persist::file_range& range : backing.ranges) {
            HF_TRY(punch_again(*file, at, range.begin));
            at = range.end;
        }
        HF_TRY(punch_again(*file, at, size));
    }
    return {};
}

base::result<void> heap_files::punch_again(persist::file& file, std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) {
        return {};
    }
    clean_around(file, begin);
    clean_around(file, end);
    return file.punch_hole(begin, end - begin, "folios.split");
}

/// ext4 splits no folio that is dirty.
void heap_files::clean_around(persist::file& file, std::uint64_t edge) noexcept {
    file.write_back(base::align_down(edge, largest_folio), largest_folio);
}

}  // namespace holdfast::segment
