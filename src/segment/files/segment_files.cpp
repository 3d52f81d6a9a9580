#include "segment/files/segment_files.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "segment/files/heap_paths.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

namespace {

using base::page_size;
using base::pages;
using persist::access_mode;

struct table_range {
    std::uint64_t offset;
    std::uint64_t length;
};

/// Page aligned; live bitmaps get space when they come into use.
std::array<table_range, 3> metadata_ranges(const geometry& shape, std::uint64_t first, std::uint64_t last) noexcept {
    const auto table = [&](std::uint64_t at, std::uint64_t from, std::uint64_t to) {
        const std::uint64_t begin = base::align_down(shape.segment_size + at + from, page_size);
        return table_range{begin, base::align_up(shape.segment_size + at + to, page_size) - begin};
    };
    const std::uint64_t first_granule = first / base::pages_per_granule;
    const std::uint64_t last_granule = base::divide_up(last, base::pages_per_granule);
    // The first growth reserves the checksum pages of the metadata, at the end.
    const bool whole = first == 0;
    const std::uint64_t checksums_from = whole ? 0 : place_of_checksum(first).checksum_page * page_size;
    const std::uint64_t checksums_to =
        whole ? shape.checksum_pages() * page_size : (place_of_checksum(last - 1).checksum_page + 1) * page_size;
    return {table(shape.slab_headers_at(), first_granule * slab_header_size, last_granule * slab_header_size),
            table(shape.page_entries_at(), first * page_entry_size, last * page_entry_size),
            table(shape.checksums_at(), checksums_from, checksums_to)};
}

}  // namespace

base::result<void> segment_files::for_each(pages start, pages length, visitor each) {
    HF_TRY(location_.check_process());
    const std::uint64_t per_segment = shape_.pages();
    const std::uint64_t end = start.value + length.value;
    for (std::uint64_t page = start.value; page < end;) {
        const std::uint64_t index = page / per_segment;
        const std::uint64_t here = std::min(end, (index + 1) * per_segment) - page;
        HF_TRY_ASSIGN(const auto file, open(index));
        const auto preferred = location_.near(index);
        HF_TRY(each(*file, page % per_segment, here));
        page += here;
    }
    return {};
}

base::result<void> segment_files::reserve_tables(pages from, pages to) {
    const std::uint64_t per_segment = shape_.pages();
    for (std::uint64_t page = from.value; page < to.value;) {
        const std::uint64_t index = page / per_segment;
        const std::uint64_t end = std::min(to.value, (index + 1) * per_segment);
        HF_TRY(reserve_in_segment(index, page % per_segment, end - index * per_segment));
        page = end;
    }
    return {};
}

base::result<void> segment_files::reserve_in_segment(std::uint64_t index, std::uint64_t first_page,
                                                     std::uint64_t last_page) {
    const auto preferred = location_.near(index);
    if (first_page == 0) {
        // Such a file is the remains of a growth that failed.
        const std::string path = location_.paths().segment(index);
        last_used_.forget();
        HF_TRY(location_.storage().remove(path, "grow.remove_remains"));
        HF_TRY_ASSIGN(const auto made, location_.storage().create(path, "grow.create"));
        set_names_changed(true);
        HF_TRY(made->resize(shape_.file_size(), "grow.resize"));
        if (location_.shared() && location_.syncs_growth()) {
            HF_TRY(made->sync("grow.resize.sync"));
        }
    }
    HF_TRY_ASSIGN(const auto file, open(index));
    return allocate_tables(*file, shape_, first_page, last_page);
}

base::result<void> segment_files::allocate_tables(persist::file& file, const geometry& shape, std::uint64_t first_page,
                                                  std::uint64_t last_page) {
    for (const table_range& range : metadata_ranges(shape, first_page, last_page)) {
        HF_TRY(file.allocate(range.offset, range.length, "grow.allocate_metadata"));
    }
    return {};
}

void segment_files::undo_growth(pages from, pages to) {
    const std::uint64_t per_segment = shape_.pages();
    for (std::uint64_t page = from.value; page < to.value;) {
        const std::uint64_t index = page / per_segment;
        const std::uint64_t end = std::min(to.value, (index + 1) * per_segment);
        if (page % per_segment == 0) {
            last_used_.forget();
            static_cast<void>(location_.storage().remove(location_.paths().segment(index), "grow.undo_create").ok());
        } else if (const auto file = open(index); file) {
            static_cast<void>(
                (*file)
                    ->punch_hole((page % per_segment) * page_size, (end - page) * page_size, "grow.undo_allocate")
                    .ok());
        }
        page = end;
    }
}

base::result<void> segment_files::clear_beyond(pages end) {
    const std::uint64_t per_segment = shape_.pages();
    const std::uint64_t last = end.value % per_segment;
    if (last == 0) {
        return {};
    }
    HF_TRY_ASSIGN(auto file, location_.storage().open(location_.paths().segment(end.value / per_segment),
                                                      access_mode::read_write));
    HF_TRY(file->punch_hole(last * page_size, (per_segment - last) * page_size, "space.clear_beyond"));
    return location_.shared() ? base::result<void>() : file->sync("space.clear_beyond.sync");
}

void segment_files::remove(std::uint64_t index) {
    last_used_.forget();
    static_cast<void>(location_.storage().remove(location_.paths().segment(index), "space.remove_segment").ok());
}

base::result<void> segment_files::remove_leftovers(pages frontier, bool recovered) const {
    const std::uint64_t segments = base::divide_up(frontier.value, shape_.pages());
    for (const std::string& directory : location_.paths().segment_directories()) {
        HF_TRY_ASSIGN(const std::vector<std::string> names, location_.storage().list(directory));
        for (const std::string& name : names) {
            if (const auto index = heap_paths::segment_index(name); index && *index >= segments) {
                HF_TRY(location_.storage().remove(fmt::format("{}/{}", directory, name), "open.remove_leftover"));
            }
        }
    }
    HF_TRY(location_.storage().remove(location_.paths().unfinished_superblock(), "open.remove_superblock"));
    if (!recovered) {
        return {};
    }
    const std::uint64_t last = frontier.value % shape_.pages();
    if (last != 0) {
        HF_TRY_ASSIGN(auto file,
                      location_.storage().open(location_.paths().segment(segments - 1), access_mode::read_write));
        HF_TRY(file->punch_hole(last * page_size, (shape_.pages() - last) * page_size, "open.punch_leftover"));
        HF_TRY(file->sync("open.sync_leftover"));
    }
    return {};
}

base::result<void> segment_files::forget_checksums(std::uint64_t count) const {
    const std::vector<std::byte> zeros(page_size);
    for (std::uint64_t i = 0; i < count; ++i) {
        HF_TRY_ASSIGN(auto file, location_.storage().open(location_.paths().segment(i), access_mode::read_write));
        for (std::uint64_t page = 0; page < shape_.checksum_pages(); ++page) {
            HF_TRY(file->write_at(shape_.segment_size + shape_.checksums_at() + page * page_size, zeros,
                                  "open.stale_checksums.write"));
        }
        HF_TRY(file->sync("open.stale_checksums.sync"));
    }
    return {};
}

base::result<void> segment_files::sync(std::uint64_t count) const {
    for (std::uint64_t i = 0; i < count; ++i) {
        HF_TRY_ASSIGN(auto file, location_.storage().open(location_.paths().segment(i), access_mode::read_write));
        HF_TRY(file->sync("shared.segment.sync"));
    }
    return {};
}

base::result<void> segment_files::sync_new_names() {
    const base::scoped_lock lock(names_mutex_);
    if (names_changed_) {
        HF_TRY(sync_segment_names(location_.storage(), location_.paths(), "grow.directory.sync"));
        names_changed_ = false;
    }
    return {};
}

}  // namespace holdfast::segment
