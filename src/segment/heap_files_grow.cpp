// How the files of an open heap grow: space is reserved on disk before it is handed out, so a full disk is an error
// here and never a SIGBUS later.
#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "segment/heap_files.hpp"
#include "segment/page_sums.hpp"
#include "segment/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using base::pages;
using persist::access_mode;

/// The most that a growth adds ahead of need. On a file system in memory it is less: to reserve the tables takes longer
/// there.
constexpr std::uint64_t most_ahead_pages = 128 * base::mebibyte / page_size;
constexpr std::uint64_t most_ahead_in_memory = 32 * base::mebibyte / page_size;
constexpr std::uint64_t objects_step = 64 * base::kibibyte;
/// Pages that a growth reserves at least where it adds so many: take_back() reserves the others when they are handed
/// out.
constexpr std::uint64_t reserved_at_once = base::mebibyte / page_size;

/// A growth doubles addresses and tables, which cost little, so a growing heap seldom asks for them. By a bounded
/// number, so that no growth takes long.
std::uint64_t ahead_pages(std::uint64_t frontier, std::uint64_t wanted, bool in_memory) noexcept {
    const std::uint64_t most = in_memory ? most_ahead_in_memory : most_ahead_pages;
    return base::align_up(std::max(wanted, std::clamp(frontier, region_pages, most)), region_pages);
}

struct table_range {
    std::uint64_t offset;
    std::uint64_t length;
};

/// The places in the segment file of the metadata for user pages [first, last), page aligned; without the live bitmaps,
/// which get space when they come into use.
std::array<table_range, 3> metadata_ranges(const geometry& shape, std::uint64_t first, std::uint64_t last) noexcept {
    const auto table = [&](std::uint64_t at, std::uint64_t from, std::uint64_t to) {
        const std::uint64_t begin = base::align_down(shape.segment_size + at + from, page_size);
        return table_range{begin, base::align_up(shape.segment_size + at + to, page_size) - begin};
    };
    const std::uint64_t first_granule = first / base::pages_per_granule;
    const std::uint64_t last_granule = base::divide_up(last, base::pages_per_granule);
    // The checksum pages of the metadata stand at the end. The segment's first growth reserves them.
    const bool whole = first == 0;
    const std::uint64_t sums_from = whole ? 0 : place_of_sum(first).checksum_page * page_size;
    const std::uint64_t sums_to =
        whole ? shape.checksum_pages() * page_size : (place_of_sum(last - 1).checksum_page + 1) * page_size;
    return {table(shape.slab_headers_at(), first_granule * slab_header_size, last_granule * slab_header_size),
            table(shape.page_entries_at(), first * page_entry_size, last * page_entry_size),
            table(shape.checksums_at(), sums_from, sums_to)};
}

}  // namespace

base::result<pages> heap_files::grow(pages wanted) {
    HF_TRY(begin_growth(wanted));
    return grow_by({}, wanted, {ahead_pages(frontier_.value, wanted.value, in_memory_)});
}

base::result<pages> heap_files::grow_beyond(pages skipped, pages wanted, pages most) {
    HF_TRY(begin_growth(skipped + wanted));
    return grow_by(skipped, wanted, {std::min(ahead_pages(frontier_.value, wanted.value, in_memory_), most.value)});
}

/// Grows by `skipped` and `generous` pages; where that is refused, by `skipped` and `wanted` pages.
base::result<pages> heap_files::grow_by(pages skipped, pages wanted, pages generous) {
    const pages from = frontier_ + skipped;
    const pages limit{base::align_down(capacity_, region_size) / page_size};
    const pages least{from.value + base::align_up(wanted.value, region_pages)};
    pages to = std::max(least, std::min(from + generous, limit));
    pages backed_to = std::min(to, from + pages{std::max(wanted.value, reserved_at_once)});
    auto reserved = reserve_growth(to, from, backed_to);
    if (!reserved && (to != least || backed_to != from + wanted)) {
        to = least;
        backed_to = from + wanted;
        reserved = reserve_growth(to, from, backed_to);
    }
    if (!reserved) {
        reserved.error().hint = "the heap is as it was; free space and try again";
        return std::move(reserved).error();
    }
    const pages before = frontier_;
    backed_end_ = scratch_ ? to : backed_to;
    HF_TRY(map_growth(to));
    return to - before;
}

/// Fails where the heap may not grow by so much. Finishes first what an earlier change of the heap's end left undone.
base::result<void> heap_files::begin_growth(pages wanted) {
    HF_TRY(check_process());
    if (mode_ == access_mode::read_only) {
        return failure{
            failure_code::read_only, paths_.directory(), "growth", "a heap opened read-only", "a writer", {}, 0};
    }
    const std::uint64_t limit = base::align_down(capacity_, region_size) / page_size;
    const std::uint64_t least = base::align_up(wanted.value, region_pages);
    if (least > limit || frontier_.value > limit - least) {
        return failure{
            failure_code::no_space,
            paths_.directory(),
            "maximum size",
            fmt::format("{} bytes in use, {} more asked for", base::to_bytes(frontier_), base::to_bytes(wanted)),
            fmt::format("at most {} in all", capacity_),
            "open the heap with a larger maximum_size or reservation",
            0};
    }
    HF_TRY(mark_running());
    if (end_in_doubt_) {
        HF_TRY(change_frontier(frontier_, frontier_));
    }
    if (content_beyond_) {
        HF_TRY(clear_beyond(frontier_));
        content_beyond_ = false;
    }
    return {};
}

/// Reserves all or nothing: the metadata of all pages up to `to`, and the pages from `backed_from` to `backed_to`.
base::result<void> heap_files::reserve_growth(pages to, pages backed_from, pages backed_to) {
    HF_TRY(check_mappings(frontier_, to));
    if (scratch_) {
        return {};
    }
    auto reserved = born_ && !shared() ? reserve_journal(to) : base::result<void>();
    if (reserved) {
        // What is promised comes last, for nothing takes it back.
        reserved = reserve_on_disk(frontier_, to, backed_from, backed_to);
    }
    if (!reserved) {
        give_back_on_disk(frontier_, to);
    }
    return reserved;
}

base::result<void> heap_files::map_growth(pages to) {
    auto mapped = shared() ? grow_shared(to) : map_fresh(frontier_, to);
    if (!mapped) {
        give_back_on_disk(frontier_, to);
        HF_TRY(check_mappings_in_use(frontier_, to));  // where it fails, it names the limit
        return std::move(mapped).error();
    }
    __atomic_store_n(&frontier_.value, to.value, __ATOMIC_RELEASE);
    return {};
}

base::result<void> heap_files::reserve_on_disk(pages from, pages to, pages backed_from, pages backed_to) {
    const std::uint64_t per_segment = view_.shape().pages();
    for (std::uint64_t page = from.value; page < to.value;) {
        const std::uint64_t index = page / per_segment;
        const std::uint64_t end = std::min(to.value, (index + 1) * per_segment);
        HF_TRY(reserve_in_segment(index, page % per_segment, end - index * per_segment));
        page = end;
    }
    return take_back(backed_from, backed_to - backed_from);
}

/// Makes the segment file where it is missing, and reserves the space of its tables.
base::result<void> heap_files::reserve_in_segment(std::uint64_t index, std::uint64_t first_page,
                                                  std::uint64_t last_page) {
    const auto preferred = near(index);
    if (first_page == 0) {
        // The segment is not committed, so a file of this name is the remains of a growth that failed.
        const std::string path = paths_.segment(index);
        open_segment_.forget();
        HF_TRY(storage().remove(path, "grow.remove_remains"));
        HF_TRY_ASSIGN(const auto made, storage().create(path, "grow.create"));
        names_changed_ = true;
        HF_TRY(made->resize(view_.shape().file_size(), "grow.resize"));
        if (shared()) {
            HF_TRY(made->sync("grow.resize.sync"));
        }
    }
    HF_TRY_ASSIGN(const auto file, open_segment_.get(storage(), paths_, index));
    return allocate_tables(*file, view_.shape(), first_page, last_page);
}

base::result<void> heap_files::allocate_tables(persist::file& file, const geometry& shape, std::uint64_t first_page,
                                               std::uint64_t last_page) {
    for (const table_range& range : metadata_ranges(shape, first_page, last_page)) {
        HF_TRY(file.allocate(range.offset, range.length, "grow.allocate_metadata"));
    }
    return {};
}

base::result<void> heap_files::map_fresh(pages from, pages to) {
    HF_TRY(map_zeroed(view_.base() + base::to_bytes(from), base::to_bytes(to - from), false));
    const std::uint64_t per_segment = view_.shape().pages();
    for (pages page = from; page < to;) {
        const pages end{std::min(to.value, base::align_up(page.value + 1, per_segment))};
        place(page.value / per_segment, view_.base() + base::to_bytes(page), base::to_bytes(end - page), true);
        page = end;
    }
    for (std::uint64_t index = segment_count(from); index < segment_count(to); ++index) {
        HF_TRY(map_zeroed(view_.metadata_of(index), view_.shape().metadata_size(), false));
    }
    return {};
}

/// Undoes reserve_on_disk() as far as it came. Best effort: what stays behind means nothing, and the next growth uses
/// it or the next open removes it.
void heap_files::give_back_on_disk(pages from, pages to) noexcept {
    const std::uint64_t per_segment = view_.shape().pages();
    try {
        if (scratch_) {
            static_cast<void>(unmap(view_.base() + base::to_bytes(from), base::to_bytes(to - from)).ok());
            return;
        }
        // Where the heap's end is in doubt, the superblock on media may include these files, so they stay.
        for (std::uint64_t page = from.value; page < to.value && !end_in_doubt_;) {
            const std::uint64_t index = page / per_segment;
            const std::uint64_t end = std::min(to.value, (index + 1) * per_segment);
            if (page % per_segment == 0) {
                open_segment_.forget();
                static_cast<void>(storage().remove(paths_.segment(index), "grow.undo_create").ok());
            } else if (const auto file = open_segment_.get(storage(), paths_, index); file) {
                static_cast<void>(
                    (*file)
                        ->punch_hole((page % per_segment) * page_size, (end - page) * page_size, "grow.undo_allocate")
                        .ok());
            }
            page = end;
        }
        static_cast<void>(unmap(view_.base() + base::to_bytes(from), base::to_bytes(to - from)).ok());
    } catch (const std::bad_alloc&) {
        return;  // no memory for a name
    }
}

base::result<void> heap_files::grow_objects(std::uint64_t bytes) {
    HF_TRY(check_process());
    if (mode_ == access_mode::read_only) {
        return failure{
            failure_code::read_only, paths_.objects(), "growth", "a heap opened read-only", "a writer", {}, 0};
    }
    const std::uint64_t step = base::align_up(std::max(bytes, std::max(objects_step, objects_size_ / 8)), page_size);
    if (step > objects_area_size - objects_size_) {
        return failure{failure_code::limit,
                       paths_.objects(),
                       "size",
                       fmt::format("{}", objects_size_),
                       fmt::format("at most {} in all", objects_area_size),
                       {},
                       0};
    }
    if (scratch_) {
        HF_TRY(map_zeroed(objects_ + objects_size_, step, false));
        objects_size_ += step;
        return {};
    }
    HF_TRY(mark_running());
    HF_TRY_ASSIGN(auto file, storage().open(paths_.objects(), access_mode::read_write));
    HF_TRY(file->allocate(objects_size_, step, "grow.allocate_objects"));
    if (shared()) {
        HF_TRY(file->sync("grow.objects.sync"));
        HF_TRY(
            map_file(objects_ + objects_size_, step, file->native_handle(), objects_size_, paths_.objects(), sharing_));
        const std::uint64_t size = objects_size_ + step;
        HF_TRY(change_superblock([size](superblock_on_media& next) { next.objects_size = size; }));
        committed_objects_size_ = adopted_objects_size_ = size;
    } else {
        HF_TRY(map_zeroed(objects_ + objects_size_, step, false));
    }
    objects_size_ += step;
    return {};
}

/// Comes before the first change of a session: a crash from here on needs a recovery.
base::result<void> heap_files::mark_running() {
    const base::scoped_lock lock(superblock_mutex_);
    if (!born_ || superblock_.state == heap_state::running) {
        return {};
    }
    if (!shared()) {
        static_cast<void>(reserve_journal(committed_frontier_).ok());  // on a full disk the session goes on without
    }
    return write_state(storage(), paths_, superblock_, heap_state::running);
}

base::result<void> heap_files::change_superblock(base::function_ref<void(superblock_on_media&)> change) {
    const base::scoped_lock lock(superblock_mutex_);
    superblock_on_media next = superblock_;
    change(next);
    HF_TRY(write_state(storage(), paths_, next, heap_state::running));
    superblock_ = next;
    return {};
}

/// Removes what a crashed writer left beyond the last commit: segment files, and content past the frontier. The content
/// must go: new space that a commit does not write must read as zero before and after that commit.
base::result<void> heap_files::remove_leftovers() {
    const std::uint64_t segments = segment_count(frontier_);
    for (const std::string& directory : paths_.segment_directories()) {
        HF_TRY_ASSIGN(const std::vector<std::string> names, storage().list(directory));
        for (const std::string& name : names) {
            if (const auto index = heap_paths::segment_index(name); index && *index >= segments) {
                HF_TRY(storage().remove(fmt::format("{}/{}", directory, name), "open.remove_leftover"));
            }
        }
    }
    HF_TRY(storage().remove(paths_.unfinished_superblock(), "open.remove_superblock"));
    if (!recovered_) {
        return {};
    }
    const std::uint64_t last = frontier_.value % view_.shape().pages();
    if (last != 0) {
        HF_TRY_ASSIGN(auto file, storage().open(paths_.segment(segments - 1), access_mode::read_write));
        HF_TRY(file->punch_hole(last * page_size, (view_.shape().pages() - last) * page_size, "open.punch_leftover"));
        HF_TRY(file->sync("open.sync_leftover"));
    }
    HF_TRY_ASSIGN(auto objects, storage().open(paths_.objects(), access_mode::read_write));
    HF_TRY(objects->resize(objects_size_, "open.resize_objects"));
    return objects->sync("open.sync_objects");
}

}  // namespace holdfast::segment
