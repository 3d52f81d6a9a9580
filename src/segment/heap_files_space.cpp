// Space that goes back to the file system and is reserved again: holes in segment files, segments that are removed.
#include <algorithm>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "segment/heap_files.hpp"
#include "segment/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using base::pages;
using persist::access_mode;

constexpr const char* mapping_limit_path = "/proc/sys/vm/max_map_count";

/// The number in the file; 0 where it cannot be read.
std::uint64_t read_number(const char* path) {
    std::ifstream file(path);
    std::uint64_t number = 0;
    file >> number;
    return file ? number : 0;
}

std::uint64_t mappings_of_this_process() {
    std::ifstream file("/proc/self/maps");
    std::uint64_t lines = 0;
    for (std::string line; std::getline(file, line);) {
        ++lines;
    }
    return lines;
}

/// Bytes of a journal for a commit that only frees: all page entries, slab headers and checksums. They are reserved so
/// that blocks can be freed on a full disk.
std::uint64_t journal_reserve(pages frontier) noexcept {
    constexpr std::uint64_t least = 64 * base::kibibyte;
    constexpr std::uint64_t bytes_a_page =
        page_entry_size + slab_header_size / base::pages_per_granule + checksum_entry_size;
    return base::align_up(least + frontier.value * bytes_a_page, page_size);
}

}  // namespace

/// Calls `each` with the file, the first page in it and the number of pages, segment by segment.
base::result<void> heap_files::for_each_file(pages start, pages length, file_visitor each) {
    HF_TRY(check_process());
    const std::uint64_t per_segment = view_.shape().pages();
    const std::uint64_t end = start.value + length.value;
    for (std::uint64_t page = start.value; page < end;) {
        const std::uint64_t index = page / per_segment;
        const std::uint64_t here = std::min(end, (index + 1) * per_segment) - page;
        HF_TRY_ASSIGN(const auto file, open_segment_.get(storage(), paths_, index));
        const auto preferred = near(index);
        HF_TRY(each(*file, page % per_segment, here));
        page += here;
    }
    return {};
}

base::result<void> heap_files::give_back(pages start, pages length) {
    if (scratch_) {
        HF_TRY(check_process());
        drop_private_pages(view_.base() + base::to_bytes(start), base::to_bytes(length));
        return {};
    }
    std::uint64_t index = start.value / view_.shape().pages();
    return for_each_file(start, length,
                         [&](persist::file& file, std::uint64_t first, std::uint64_t count) -> base::result<void> {
                             HF_TRY(folios_.part(file, index++, first, count));
                             return file.punch_hole(first * page_size, count * page_size, "space.give_back");
                         });
}

base::result<void> heap_files::take_back(pages start, pages length) {
    if (scratch_) {
        return {};
    }
    if (!shared()) {
        HF_TRY(mark_running());  // reserves the journal before blocks take what is left
    }
    if (reserves_at_commit() && born_ && start >= committed_frontier_) {
        HF_TRY(check_process());
        return promised_.add(storage(), paths_.segment_directories(), start, length);
    }
    return for_each_file(
        start, length, [this](persist::file& file, std::uint64_t first, std::uint64_t count) -> base::result<void> {
            HF_TRY(file.allocate(first * page_size, count * page_size, "space.take_back"));
            // On persistent memory a power loss must not undo the reservation: a store into a hole on a full disk is a
            // SIGBUS.
            return sharing_ == page_sharing::shared_sync ? file.sync("space.take_back.sync") : base::result<void>();
        });
}

/// On a file system in memory, a call that reserves much takes long, so it reserves little.
space_growth::steps heap_files::reserve_steps() const noexcept {
    constexpr pages few{base::mebibyte / 2 / page_size};
    const steps usual = space_growth::reserve_steps();
    return in_memory_ && shared() ? steps{usual.least, few} : usual;
}

bool heap_files::has_room(pages wanted) const noexcept {
    constexpr std::uint64_t spare = 4 * base::mebibyte;
    if (scratch_) {
        return true;
    }
    try {
        return std::ranges::all_of(paths_.segment_directories(), [&](const std::string& directory) {
            const auto left = storage().available(directory);
            return !left || *left >= base::to_bytes(wanted) + spare;
        });
    } catch (const std::bad_alloc&) {
        return false;
    }
}

base::result<void> heap_files::look_whether_in_memory() {
    in_memory_ = true;
    for (const std::string& directory : paths_.segment_directories()) {
        HF_TRY_ASSIGN(const bool memory, storage().is_memory(directory));
        in_memory_ = in_memory_ && memory;
    }
    return {};
}

base::result<void> heap_files::forbid(pages start, pages length, rights left) {
    std::byte* const address = view_.base() + base::to_bytes(start);
    if (!shared()) {
        // A commit reads each dirty page at its address, so a page without access must not be dirty. Nor does a page
        // that nobody can reach need memory.
        HF_TRY(try_to_drop_private_pages(address, base::to_bytes(length)));
    }
    return set_rights(address, base::to_bytes(length), left == rights::none ? page_rights::none : page_rights::read);
}

base::result<void> heap_files::permit(pages start, pages length) {
    return set_rights(view_.base() + base::to_bytes(start), base::to_bytes(length), page_rights::read_write);
}

/// A quarter of the mappings that a process may have: each range is two mappings, so the ranges take half of them. The
/// other half is for the program and for the growth of heaps.
std::uint64_t heap_files::most_ranges() const {
    constexpr std::uint64_t usual_limit = 65'530;
    const std::uint64_t limit = read_number(mapping_limit_path);
    return (limit == 0 ? usual_limit : limit) / 4;
}

/// Most granules never are slabs, and bitmaps are the largest of the tables: they get their space when they need it,
/// those of a region at once; on a full disk, the one page that is needed.
base::result<void> heap_files::back(base::granule position, slab_is use) {
    const geometry& shape = view_.shape();
    constexpr std::uint64_t together = region_size / base::granule_size * bitmap_size / page_size;
    const std::uint64_t segment = position.value / shape.granules();
    const std::uint64_t page = position.value % shape.granules() * bitmap_size / page_size;
    const std::uint64_t pages_of_segment = (shape.checksums_at() - shape.bitmaps_at()) / page_size;
    const bool fresh = !scratch_ && base::first_page(position) >= adopted_frontier_;
    if (use == slab_is::made && (shared() || fresh)) {
        populate(view_.base() + base::offset_of(position).value, base::granule_size);
    }
    const base::scoped_lock lock(backed_bitmaps_mutex_);
    const std::uint64_t index = segment * pages_of_segment + page;
    if ((index < backed_bitmaps_.size() && backed_bitmaps_[index]) || scratch_) {
        return {};
    }
    HF_TRY(check_process());
    if (mode_ == access_mode::read_only) {
        return {};
    }
    HF_TRY_ASSIGN(const auto file, open_segment_.get(storage(), paths_, segment));
    const auto preferred = near(segment);
    const auto reserve = [&](std::uint64_t first, std::uint64_t count) {
        const std::uint64_t at = shape.segment_size + shape.bitmaps_at() + first * page_size;
        return file->allocate(at, count * page_size, "space.back_bitmap");
    };
    std::uint64_t first = base::align_down(page, together);
    std::uint64_t count = together;
    if (!has_room({count}) || !reserve(first, count)) {
        first = page;
        count = 1;
        HF_TRY(reserve(first, count));
    }
    if (sharing_ == page_sharing::shared_sync) {
        HF_TRY(file->sync("space.back_bitmap.sync"));
    }
    if (index >= backed_bitmaps_.size()) {
        backed_bitmaps_.resize((segment + 1) * pages_of_segment, false);
    }
    const auto begin = backed_bitmaps_.begin() + static_cast<std::ptrdiff_t>(segment * pages_of_segment + first);
    std::fill_n(begin, count, true);
    return {};
}

bool heap_files::has_bitmap(base::granule position) {
    if (scratch_) {
        return true;
    }
    const geometry& shape = view_.shape();
    const std::uint64_t segment = position.value / shape.granules();
    const std::uint64_t at = shape.segment_size + shape.bitmaps_at() + position.value % shape.granules() * bitmap_size;
    const base::scoped_lock lock(backed_bitmaps_mutex_);
    if (segment != examined_segment_ || position.value % shape.granules() == 0) {  // each walk looks anew
        auto file = storage().open(paths_.segment(segment), access_mode::read_only);
        auto found = file ? persist::backing_of(**file) : base::result<persist::file_backing>(std::move(file).error());
        if (!found) {
            return true;  // unknown
        }
        examined_ = std::move(*found);
        examined_segment_ = segment;
    }
    const auto next = std::ranges::upper_bound(examined_.ranges, at, {}, &persist::file_range::begin);
    return next != examined_.ranges.begin() && at < std::prev(next)->end;
}

base::result<void> heap_files::reserve_journal(pages frontier) {
    const std::uint64_t wanted = journal_reserve(frontier);
    HF_TRY_ASSIGN(auto file, storage().open(paths_.journal(), access_mode::read_write));
    HF_TRY_ASSIGN(const std::uint64_t size, file->size());
    return size >= wanted ? base::result<void>() : file->allocate(size, wanted - size, "journal.reserve");
}

/// Comes after a commit that wrote all pages to their places. Where the disk is short of space, gives back the journal
/// beyond its reserve; its header is void by its sequence. Best effort.
void heap_files::shorten_journal() noexcept {
    try {
        auto file = storage().open(paths_.journal(), access_mode::read_write);
        const auto size = file ? (*file)->size() : base::result<std::uint64_t>(0);
        const std::uint64_t kept = journal_reserve(frontier_);
        if (size && *size > kept && is_space_short(base::pages_for(*size - kept))) {
            static_cast<void>((*file)->resize(kept, "journal.give_back").ok());
        }
    } catch (const std::bad_alloc&) {
        return;  // no memory for a name
    }
}

bool heap_files::is_space_short(pages free) const {
    constexpr std::uint64_t enough = 64 * base::mebibyte;
    const auto is_short = [&](const std::string& directory) {
        const auto left = storage().available(directory);
        return left && *left < base::to_bytes(free) + enough;
    };
    return is_short(paths_.directory()) || std::ranges::any_of(paths_.segment_directories(), is_short);
}

base::result<void> heap_files::shrink(pages to) {
    HF_TRY(check_process());
    HF_ASSERT(shared() && to.value % (region_size / page_size) == 0 && to.value != 0);
    const pages from = frontier_;
    if (to >= from) {
        return {};
    }
    // Where the next write fails, media may say either end. So from here on nothing beyond the lower of the two is
    // used, and what lies there stays until a superblock is written that leaves no doubt.
    __atomic_store_n(&frontier_.value, to.value, __ATOMIC_RELEASE);
    committed_frontier_ = adopted_frontier_ = to;
    HF_TRY(change_frontier(to, to));
    remove_beyond(to, from);
    return {};
}

/// Writes the heap's end to the superblock. After a failure media may hold either end, and `in_doubt` is the end that
/// every later write of the superblock says.
base::result<void> heap_files::change_frontier(pages to, pages in_doubt) {
    {
        const base::scoped_lock lock(superblock_mutex_);
        superblock_.frontier = base::to_bytes(in_doubt);
    }
    end_in_doubt_ = true;
    HF_TRY(change_superblock([to](superblock_on_media& next) { next.frontier = base::to_bytes(to); }));
    end_in_doubt_ = false;
    return {};
}

/// Comes after the superblock says that the heap ends at `to`. Best effort: what stays behind means nothing, and the
/// next open removes it.
void heap_files::remove_beyond(pages to, pages from) noexcept {
    content_beyond_ = true;
    try {
        static_cast<void>(unmap(view_.base() + base::to_bytes(to), base::to_bytes(from - to)).ok());
        {
            const base::scoped_lock lock(backed_bitmaps_mutex_);
            const geometry& shape = view_.shape();
            backed_bitmaps_.resize(std::min<std::size_t>(
                backed_bitmaps_.size(), segment_count(to) * ((shape.checksums_at() - shape.bitmaps_at()) / page_size)));
        }
        open_segment_.forget();
        for (std::uint64_t index = segment_count(to); index < segment_count(from); ++index) {
            static_cast<void>(unmap(view_.metadata_of(index), view_.shape().metadata_size()).ok());
            static_cast<void>(storage().remove(paths_.segment(index), "space.remove_segment").ok());
        }
        content_beyond_ = !clear_beyond(to);
    } catch (const std::bad_alloc&) {
        return;  // no memory for a name
    }
}

/// Removes the content beyond the end in the last segment. In durability `commit` this is made durable: new space that
/// a commit does not write must read as zero before and after that commit.
base::result<void> heap_files::clear_beyond(pages end) {
    const std::uint64_t per_segment = view_.shape().pages();
    const std::uint64_t last = end.value % per_segment;
    if (last == 0) {
        return {};
    }
    HF_TRY_ASSIGN(auto file, storage().open(paths_.segment(end.value / per_segment), access_mode::read_write));
    HF_TRY(file->punch_hole(last * page_size, (per_segment - last) * page_size, "space.clear_beyond"));
    return shared() ? base::result<void>() : file->sync("space.clear_beyond.sync");
}

/// Punches the holes of a commit that is durable. Best effort: pages that keep their space are free all the same.
/// Returns the pages given back.
std::uint64_t heap_files::punch(const free_runs& holes) noexcept {
    std::uint64_t gone = 0;
    try {
        for (const auto& [start, length] : holes) {
            gone += give_back(start, length) ? length.value : 0;
        }
    } catch (const std::bad_alloc&) {
        return gone;  // no memory for a name
    }
    return gone;
}

/// The kernel limits a process's mappings, and at the limit mmap fails in an arbitrary place. So where the heap has
/// many of them, the limit is checked before anything is changed.
base::result<void> heap_files::check_mappings(pages from, pages to) const {
    constexpr std::uint64_t few = 10'000;
    return 2 * segment_count(to) < few ? base::result<void>() : check_mappings_in_use(from, to);
}

base::result<void> heap_files::check_mappings_in_use(pages from, pages to) const {
    constexpr std::uint64_t spare = 64;  // the rest of the process needs some
    const std::uint64_t limit = read_number(mapping_limit_path);
    const std::uint64_t segments = segment_count(to) - segment_count(from);
    const std::uint64_t added = 2 * segments + 1;
    const std::uint64_t now = limit == 0 ? 0 : mappings_of_this_process();
    if (now + added + spare <= limit || limit == 0) {
        return {};
    }
    return failure{failure_code::limit,
                   mapping_limit_path,
                   "mappings of a process",
                   fmt::format("{} in use, {} more for {} segments", now, added, segments),
                   fmt::format("at most {}, {} of them spare", limit, spare),
                   "create heaps of this size with larger segments (segment_size), or raise vm.max_map_count",
                   0};
}

}  // namespace holdfast::segment
