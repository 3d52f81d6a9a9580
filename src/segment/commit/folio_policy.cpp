#include "segment/commit/folio_policy.hpp"

#include <algorithm>

#include "persist/backing.hpp"
#include "segment/files/address_range.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

using base::page_size;
using persist::access_mode;

namespace {

constexpr std::uint64_t largest_folio = 2 * base::mebibyte;
/// With MADV_HUGEPAGE a fault reads its own 2 MiB and the next.
constexpr std::uint64_t most_read_ahead = 2 * largest_folio;

/// ext4 splits no dirty folio.
void clean_around(persist::file& file, std::uint64_t edge) noexcept {
    file.write_back(base::align_down(edge, largest_folio), largest_folio);
}

/// Splits folios at the edges of a hole.
base::result<void> punch_again(persist::file& file, std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) {
        return {};
    }
    clean_around(file, begin);
    clean_around(file, end);
    return file.punch_hole(begin, end - begin, "folios.split");
}

}  // namespace

base::result<bool> folio_policy::has_folios(persist::file& file) const {
    return sharing_ == page_sharing::shared_pages ? persist::stores_fill_folios(file) : base::result<bool>(false);
}

void folio_policy::keep_small(std::uint64_t index) {
    if (index >= segments_at_open_) {
        return;  // choose() did so
    }
    const base::scoped_lock lock(mutex_);
    if (small_.size() < segments_at_open_) {
        small_.resize(segments_at_open_, false);
    }
    if (!small_[index]) {
        keep_pages_small(view_.base() + index * view_.shape().segment_size, view_.shape().segment_size);
        small_[index] = true;
    }
}

base::result<void> folio_policy::part(persist::file& file, std::uint64_t index, std::uint64_t first,
                                      std::uint64_t count) {
    HF_TRY_ASSIGN(const bool folios, has_folios(file));
    if (!folios) {
        return {};
    }
    keep_small(index);
    if (index < segments_at_open_) {
        // The kernel read ahead before there were holes, or for an earlier reader.
        clean_around(file, first * page_size);
        clean_around(file, (first + count) * page_size);
    }
    return {};
}

base::result<void> folio_policy::choose(persist::file& file, std::uint64_t index, std::uint64_t from_page,
                                        std::uint64_t end_page, bool fresh) {
    HF_TRY_ASSIGN(const bool folios, has_folios(file));
    if (!folios) {
        return {};
    }
    const geometry& shape = view_.shape();
    if (from_page == 0) {
        // Tables and bitmaps get their space when they need it, so they have holes.
        std::byte* const tables = view_.metadata_of(index);
        keep_pages_small(tables, shape.metadata_size());
        if (!fresh) {
            read_ahead(tables, shape.page_entries_at() + end_page * page_entry_size);
        }
    }
    if (fresh) {
        // New pages come into the cache by stores: nothing to read ahead.
        keep_pages_small(view_.base() + index * shape.segment_size + from_page * page_size,
                         (end_page - from_page) * page_size);
        return {};
    }
    segments_at_open_ = std::max(segments_at_open_, index + 1);
    // A fault before the end of what is in use reads beyond it, where the heap grows later, or where the tables begin.
    const std::uint64_t end = end_page * page_size;
    const std::uint64_t edge = end - std::min(end, most_read_ahead);
    keep_pages_small(view_.base() + index * shape.segment_size + edge, end - edge);
    HF_TRY_ASSIGN(const persist::file_backing backing, persist::backing_of(file));
    const auto holds_all = [&](const persist::file_range& range) {
        return range.begin == 0 && range.end >= end_page * page_size;
    };
    if (std::ranges::none_of(backing.ranges, holds_all)) {
        keep_small(index);
    }
    return {};
}

base::result<void> folio_policy::split(persist::storage& storage, const heap_paths& paths,
                                       std::uint64_t frontier) const {
    for (std::uint64_t index = 0; index < base::divide_up(frontier, view_.shape().segment_size); ++index) {
        HF_TRY_ASSIGN(auto file, storage.open(paths.segment(index), access_mode::read_write));
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

}  // namespace holdfast::segment
