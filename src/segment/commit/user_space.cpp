#include "segment/commit/user_space.hpp"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "base/interruption.hpp"
#include "segment/commit/uncommitted_bound.hpp"
#include "segment/files/address_range.hpp"
#include "segment/files/kernel_limits.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using base::pages;

/// In memory, reserving the tables takes longer.
constexpr std::uint64_t most_ahead_pages = 128 * base::mebibyte / page_size;
constexpr std::uint64_t most_ahead_in_memory = 32 * base::mebibyte / page_size;
/// Larger growths reserve these; reserve_again() reserves the others.
constexpr std::uint64_t reserved_at_once = base::mebibyte / page_size;
/// A page takes 1 to 4 us: for growths, and the most for reserve_again().
constexpr std::uint64_t reserved_in_memory = base::mebibyte / 4 / page_size;

/// A growth doubles addresses and tables, which cost little; by a bounded number, so that none takes long.
std::uint64_t ahead_pages(std::uint64_t frontier, std::uint64_t wanted, bool in_memory) noexcept {
    const std::uint64_t most = in_memory ? most_ahead_in_memory : most_ahead_pages;
    return base::align_up(std::max(wanted, std::clamp(frontier, region_pages, most)), region_pages);
}

}  // namespace

user_space::user_space(const user_space_parts& parts) noexcept
    : location_(parts.location),
      superblock_(parts.superblock),
      segments_(parts.segments),
      mapping_(parts.mapping),
      bitmaps_(parts.bitmaps) {}

base::result<pages> user_space::grow(pages wanted) {
    const base::cancellation_off until_done;
    HF_TRY(begin_growth(wanted));
    return grow_by({}, wanted, {ahead_pages(mapping_.frontier().value, wanted.value, location_.is_in_memory())});
}

base::result<pages> user_space::grow_beyond(pages skipped, pages wanted, pages most) {
    const base::cancellation_off until_done;
    HF_TRY(begin_growth(skipped + wanted));
    return grow_by(
        skipped, wanted,
        {std::min(ahead_pages(mapping_.frontier().value, wanted.value, location_.is_in_memory()), most.value)});
}

/// Grows by `generous` pages, or else by `wanted`.
base::result<pages> user_space::grow_by(pages skipped, pages wanted, pages generous) {
    const pages from = mapping_.frontier() + skipped;
    const pages limit{base::align_down(capacity_, region_size) / page_size};
    const pages least{from.value + base::align_up(wanted.value, region_pages)};
    pages to = std::max(least, std::min(from + generous, limit));
    const std::uint64_t at_once = location_.is_in_memory() ? reserved_in_memory : reserved_at_once;
    pages backed_to = std::min(to, from + pages{std::max(wanted.value, at_once)});
    auto reserved = reserve_growth(to, from, backed_to);
    if (!reserved && (to != least || backed_to != from + wanted)) {
        to = least;
        backed_to = from + wanted;
        reserved = reserve_growth(to, from, backed_to);
    }
    if (!reserved) {
        if (reserved.error().code == failure_code::no_space) {
            reserved.error().hint = "the heap is as it was; free space and try again";
        }
        return std::move(reserved).error();
    }
    const pages before = mapping_.frontier();
    backed_end_ = backed_to;
    HF_TRY(map_growth(to));
    // reserve_tables() makes the file of each segment that begins beyond the old end; memory without files has none.
    const std::uint64_t per_segment = mapping_.view().shape().pages();
    made_from_ = location_.is_scratch() ? to : pages{base::align_up(before.value, per_segment)};
    return to - before;
}

failure user_space::beyond_capacity(pages wanted) const {
    return failure{
        failure_code::no_space,
        location_.paths().directory(),
        "maximum size",
        fmt::format("{} bytes in use, {} more asked for", base::to_bytes(mapping_.frontier()), base::to_bytes(wanted)),
        fmt::format("at most {} in all", capacity_),
        "open the heap with a larger maximum_size or reservation",
        0};
}

/// Finishes first what an earlier change of the heap's end left undone.
base::result<void> user_space::begin_growth(pages wanted) {
    HF_TRY(location_.check_process());
    HF_TRY(location_.check_writer(location_.paths().directory(), "growth"));
    const std::uint64_t limit = base::align_down(capacity_, region_size) / page_size;
    const std::uint64_t least = base::align_up(wanted.value, region_pages);
    if (least > limit || mapping_.frontier().value > limit - least) {
        return base::failure_to_read(failure_code::no_space, [&] { return beyond_capacity(wanted); });
    }
    HF_TRY(superblock_.mark_running());
    if (end_in_doubt_) {
        HF_TRY(change_frontier(mapping_.frontier(), mapping_.frontier()));
    }
    return clear_content_beyond();
}

/// Reserves all or nothing.
base::result<void> user_space::reserve_growth(pages to, pages backed_from, pages backed_to) {
    HF_TRY(check_mappings(mapping_.segment_count(mapping_.frontier()), mapping_.segment_count(to)));
    if (location_.is_scratch()) {
        return {};
    }
    auto reserved =
        superblock_.is_on_media() && !location_.shared() ? superblock_.reserve_log(to) : base::result<void>();
    if (reserved) {
        reserved = segments_.reserve_tables(mapping_.frontier(), to);
    }
    if (reserved) {
        // A promise comes last, for nothing takes it back.
        reserved = reserve_again(backed_from, backed_to - backed_from);
    }
    if (!reserved) {
        give_back_on_disk(mapping_.frontier(), to);
    }
    return reserved;
}

base::result<void> user_space::map_growth(pages to) {
    auto mapped = location_.shared() ? grow_shared(to) : mapping_.map_fresh(mapping_.frontier(), to);
    if (!mapped) {
        give_back_on_disk(mapping_.frontier(), to);
        return std::move(mapped).error();
    }
    mapping_.set_frontier(to);
    return {};
}

base::result<void> user_space::grow_shared(pages to) {
    const pages from = mapping_.frontier();
    if (location_.syncs_growth()) {
        HF_TRY(segments_.sync_new_names());
    }
    HF_TRY(mapping_.map_grown(to));
    auto written = change_frontier(to, from);
    if (!written) {
        mapping_.withdraw_growth(from);
        return written;
    }
    mapping_.adopt_growth();
    return {};
}

/// Best effort: what stays means nothing.
void user_space::give_back_on_disk(pages from, pages to) noexcept {
    try {
        // The superblock on media may include these files.
        if (!location_.is_scratch() && !end_in_doubt_) {
            segments_.undo_growth(from, to);
        }
        mapping_.unmap_user(from, to);
    } catch (const std::bad_alloc&) {
        return;  // no memory for a name
    }
}

base::result<void> user_space::give_back(pages start, pages length) {
    if (location_.is_scratch()) {
        HF_TRY(location_.check_process());
        drop_private_pages(mapping_.view().base() + base::to_bytes(start), base::to_bytes(length));
        return {};
    }
    const base::cancellation_off until_done;
    std::uint64_t index = start.value / mapping_.view().shape().pages();
    return segments_.for_each(start, length,
                              [&](persist::file& file, std::uint64_t first, std::uint64_t count) -> base::result<void> {
                                  HF_TRY(mapping_.before_hole(file, index++, first, count));
                                  return file.punch_hole(first * page_size, count * page_size, "space.give_back");
                              });
}

base::result<void> user_space::reserve_again(pages start, pages length) {
    if (location_.is_scratch()) {
        return {};
    }
    const base::cancellation_off until_done;
    if (!location_.shared()) {
        HF_TRY(superblock_.mark_running());  // reserves the log before blocks take what is left
    }
    if (only_promises(start)) {
        HF_TRY(location_.check_process());
        return promised_.add(location_.storage(), location_.paths().segment_directories(), start, length);
    }
    return segments_.for_each(
        start, length, [this](persist::file& file, std::uint64_t first, std::uint64_t count) -> base::result<void> {
            HF_TRY(file.allocate(first * page_size, count * page_size, "space.reserve_again"));
            // A loss of power must not undo the reservation: a store into a hole on a full disk is a SIGBUS.
            return location_.syncs_space() ? file.sync("space.reserve_again.sync") : base::result<void>();
        });
}

/// Pages below the end of the last commit are mapped from files: a store to a hole takes space at once.
bool user_space::only_promises(pages start) const noexcept {
    return location_.reserves_at_commit() && superblock_.is_on_media() && start >= mapping_.committed();
}

/// In memory, a call that reserves much takes long.
space_growth::steps user_space::reserve_steps(pages at) const noexcept {
    const steps usual = space_growth::reserve_steps(at);
    return location_.is_in_memory() && !only_promises(at) ? steps{usual.least, pages{reserved_in_memory}} : usual;
}

base::result<void> user_space::admit(pages more) {
    return bound_ == nullptr ? base::result<void>() : bound_->admit(more);
}

bool user_space::has_room(pages wanted) const noexcept { return location_.has_room(wanted); }

base::result<void> user_space::shrink(pages to) {
    HF_TRY(location_.check_process());
    HF_ASSERT(location_.shared() && to.value % (region_size / page_size) == 0 && to.value != 0);
    const pages from = mapping_.frontier();
    if (to >= from) {
        return {};
    }
    // Where the next write fails, media may say either end: nothing beyond the lower one is used from here on, and what
    // lies there stays until a superblock is written that leaves no doubt.
    mapping_.lower(to);
    made_from_ = from;
    HF_TRY(change_frontier(to, to));
    remove_beyond(to, from);
    return {};
}

/// After a failure every later write says `in_doubt`.
base::result<void> user_space::change_frontier(pages to, pages in_doubt) {
    superblock_.set_frontier(in_doubt);
    end_in_doubt_ = true;
    HF_TRY(superblock_.write_size([to](superblock_on_media& next) { next.frontier = base::to_bytes(to); }));
    end_in_doubt_ = false;
    return {};
}

std::vector<page_run> user_space::promised() const {
    return promised_.runs(mapping_.frontier(), mapping_.view().shape().pages());
}

std::uint64_t user_space::punch(const free_runs& holes) noexcept {
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

void user_space::remove_beyond(pages to, pages from) noexcept {
    content_beyond_ = true;
    try {
        mapping_.unmap_user(to, from);
        bitmaps_.forget_beyond(mapping_.segment_count(to));
        for (std::uint64_t index = mapping_.segment_count(to); index < mapping_.segment_count(from); ++index) {
            mapping_.unmap_metadata(index);
            segments_.remove(index);
        }
        content_beyond_ = !segments_.clear_beyond(to);
    } catch (const std::bad_alloc&) {
        return;  // no memory for a name
    }
}

base::result<void> user_space::clear_content_beyond() {
    if (content_beyond_) {
        HF_TRY(segments_.clear_beyond(mapping_.frontier()));
        content_beyond_ = false;
    }
    return {};
}

}  // namespace holdfast::segment
