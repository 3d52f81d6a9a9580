// Durability `atomic` and `collect`: the files are mapped shared, so a store is in the file at once; the persistence
// domain says when it is on media. What the superblock says (frontier, size of the objects file) is durable before
// anything refers to it.
#include <algorithm>
#include <chrono>
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
using persist::domain_kind;

}  // namespace

base::result<void> heap_files::choose_sharing(const mapping_options& options) {
    HF_TRY_ASSIGN(domain_, domain_of_files());
    if (!options.shared) {
        return {};
    }
    const bool synchronous = domain_ == domain_kind::dax || domain_ == domain_kind::eadr;
    sharing_ = synchronous ? page_sharing::shared_sync : page_sharing::shared_pages;
    if (options.domain) {
        const domain_kind wanted = *options.domain;
        const bool possible = wanted == domain_ || wanted == domain_kind::page_cache ||
                              wanted == domain_kind::emulated || (wanted == domain_kind::dax && synchronous);
        if (!possible) {
            return failure{failure_code::promise_unavailable,
                           paths_.directory(),
                           "persistence domain",
                           std::string(persist::to_string(domain_)),
                           std::string(persist::to_string(wanted)),
                           "put the heap on a file system that is mounted with dax, or ask for another domain",
                           0};
        }
        domain_ = wanted;
    }
    return {};
}

/// A writer that keeps sums of pages opens a heap whose pages were changed without their sums. Nobody knows which pages
/// these are, so all sums become void.
base::result<void> heap_files::forget_stale_sums() {
    if ((superblock_.flags & flag_stale_sums) == 0) {
        return {};
    }
    const geometry shape = geometry_of(superblock_);
    const std::vector<std::byte> zeros(page_size);
    for (std::uint64_t i = 0; i < base::divide_up(superblock_.frontier, shape.segment_size); ++i) {
        HF_TRY_ASSIGN(auto file, storage().open(paths_.segment(i), access_mode::read_write));
        for (std::uint64_t page = 0; page < shape.checksum_pages(); ++page) {
            HF_TRY(file->write_at(shape.segment_size + shape.checksums_at() + page * page_size, zeros,
                                  "open.stale_sums.write"));
        }
        HF_TRY(file->sync("open.stale_sums.sync"));
    }
    HF_TRY_ASSIGN(auto objects, storage().open(paths_.objects(), access_mode::read_write));
    for (std::uint64_t page = 0; page * page_size < superblock_.objects_size; page += objects_group_pages) {
        HF_TRY(objects->write_at(page * page_size, zeros, "open.stale_sums.write_objects"));
    }
    HF_TRY(objects->sync("open.stale_sums.sync_objects"));
    superblock_on_media next = superblock_;
    next.flags &= ~flag_stale_sums;
    HF_TRY(write_state(storage(), paths_, next, next.state));
    superblock_ = next;
    return {};
}

base::result<void> heap_files::open_lanes(std::uint64_t limit) {
    HF_TRY_ASSIGN(const bool there, storage().exists(paths_.lanes()));
    std::unique_ptr<persist::file> file;
    if (there) {
        HF_TRY_ASSIGN(file,
                      storage().open(paths_.lanes(), shared() ? access_mode::read_write : access_mode::read_only));
    } else if (shared() && !has_pending_lanes()) {
        HF_TRY_ASSIGN(file, storage().create(paths_.lanes(), "lanes.create"));
        HF_TRY(storage().sync_directory(paths_.directory(), "lanes.create.sync"));
    } else {
        return failure{failure_code::missing, paths_.lanes(), "file", "nothing", "the heap's redo rings", {}, 0};
    }
    HF_TRY_ASSIGN(const std::uint64_t size, file->size());
    if (size > limit) {
        return failure{failure_code::corrupt,
                       paths_.lanes(),
                       "file size",
                       fmt::format("{}", size),
                       fmt::format("at most {}", limit),
                       {},
                       0};
    }
    HF_TRY_ASSIGN(lanes_range_, address_range::anywhere(base::align_up(limit, page_size), 0, region_size));
    lanes_size_ = base::align_down(size, page_size);
    if (lanes_size_ == 0) {
        return {};
    }
    if (copied_ && mode_ == access_mode::read_write) {
        HF_TRY(file->allocate(0, lanes_size_, "copied.lanes"));
    }
    HF_TRY(map_file(lanes_range_.begin(), lanes_size_, file->native_handle(), 0, paths_.lanes(), sharing_));
    if (copied_ && mode_ == access_mode::read_only) {
        const mapped_window whole{lanes_range_.begin(), 0, lanes_size_};
        return cover_holes(*file, {&whole, 1});
    }
    return {};
}

base::result<void> heap_files::grow_lanes(std::uint64_t bytes) {
    HF_TRY(check_process());
    if (bytes <= lanes_size_) {
        return {};
    }
    if (bytes > lanes_range_.size()) {
        return failure{failure_code::limit,
                       paths_.lanes(),
                       "size",
                       fmt::format("{}", bytes),
                       fmt::format("at most {}", lanes_range_.size()),
                       {},
                       0};
    }
    const std::uint64_t to = base::align_up(bytes, page_size);
    HF_TRY_ASSIGN(auto file, storage().open(paths_.lanes(), access_mode::read_write));
    HF_TRY(file->allocate(lanes_size_, to - lanes_size_, "lanes.allocate"));
    HF_TRY(file->sync("lanes.sync"));
    HF_TRY(map_file(lanes_range_.begin() + lanes_size_, to - lanes_size_, file->native_handle(), lanes_size_,
                    paths_.lanes(), sharing_));
    lanes_size_ = to;
    return {};
}

base::result<void> heap_files::begin_incarnation(std::uint32_t lane_slots, std::uint32_t record_order) {
    superblock_on_media next = superblock_;
    next.flags |= flag_lanes | flag_stale_sums;
    next.base_address = reinterpret_cast<std::uint64_t>(view_.base());
    ++next.incarnation;
    next.lane_slots = lane_slots;
    next.record_order = record_order;
    next.recoveries += recovered_ ? 1 : 0;
    // The head of the lanes must be on media before the superblock says that lanes count; on the page cache, too.
    if (lanes_size_ != 0) {
        HF_TRY_ASSIGN(auto lanes, storage().open(paths_.lanes(), access_mode::read_write));
        HF_TRY(lanes->sync("begin.lanes.sync"));
    }
    HF_TRY(write_state(storage(), paths_, next, heap_state::running));
    superblock_ = next;
    recovery_counted_ = true;
    return {};
}

base::result<void> heap_files::begin_tracing() {
    superblock_on_media next = superblock_;
    next.flags |= flag_tracing | flag_stale_sums;
    next.base_address = reinterpret_cast<std::uint64_t>(view_.base());
    next.recoveries += recovered_ ? 1 : 0;
    HF_TRY(write_state(storage(), paths_, next, heap_state::running));
    superblock_ = next;
    recovery_counted_ = true;
    return {};
}

/// Maps the space up to `to`, which is reserved on disk, and makes it part of the heap.
base::result<void> heap_files::grow_shared(pages to) {
    const pages from = frontier_;
    if (names_changed_) {
        HF_TRY(sync_segment_names(storage(), paths_, "grow.directory.sync"));
        names_changed_ = false;
    }
    committed_frontier_ = to;  // map_committed_segment() maps up to here
    const std::uint64_t per_segment = view_.shape().pages();
    for (std::uint64_t page = from.value; page < to.value; page = (page / per_segment + 1) * per_segment) {
        if (auto mapped = map_committed_segment(page / per_segment, page % per_segment, true); !mapped) {
            committed_frontier_ = from;
            return mapped;
        }
    }
    auto written = change_frontier(to, from);
    if (!written) {
        committed_frontier_ = from;
        return written;
    }
    adopted_frontier_ = to;
    return {};
}

base::result<void> heap_files::sync_shared() {
    for (std::uint64_t i = 0; i < segment_count(frontier_); ++i) {
        HF_TRY_ASSIGN(auto file, storage().open(paths_.segment(i), access_mode::read_write));
        HF_TRY(file->sync("shared.segment.sync"));
    }
    HF_TRY_ASSIGN(auto objects, storage().open(paths_.objects(), access_mode::read_write));
    HF_TRY(objects->sync("shared.objects.sync"));
    if (lanes_size_ != 0) {
        HF_TRY_ASSIGN(auto lanes, storage().open(paths_.lanes(), access_mode::read_write));
        HF_TRY(lanes->sync("shared.lanes.sync"));
    }
    return {};
}

base::result<void> heap_files::close_shared(std::uint64_t checkpoint_clock) {
    if (superblock_.state == heap_state::clean) {
        return {};
    }
    HF_TRY(sync_shared());
    superblock_on_media next = superblock_;
    next.flags &= ~(flag_lanes | flag_tracing);
    next.checkpoint_clock = checkpoint_clock;
    HF_TRY(write_state(storage(), paths_, next, heap_state::clean));
    superblock_ = next;
    return {};
}

}  // namespace holdfast::segment
