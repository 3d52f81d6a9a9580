#include "segment/commit/live_bitmaps.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/checksum.hpp"
#include "base/interruption.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using persist::access_mode;

failure damaged(const std::string& path, std::string field, std::uint32_t found, std::uint32_t expected) {
    return failure{
        failure_code::corrupt,  path, std::move(field), fmt::format("{:#x}", found), fmt::format("{:#x}", expected),
        "metadata was damaged", 0};
}

}  // namespace

std::uint64_t live_bitmaps::pages_of_segment() const noexcept {
    const geometry& shape = mapping_.view().shape();
    return (shape.checksums_at() - shape.bitmaps_at()) / page_size;
}

// SEG-3: a page of the metadata tables matches its checksum until this process changes it.
base::result<void> live_bitmaps::verify_mapped_page(std::uint64_t segment, std::uint64_t metadata_page) const {
    const geometry& shape = mapping_.view().shape();
    const std::byte* const metadata = mapping_.view().metadata_of(segment);
    const checksum_place place = place_of_checksum(shape.pages() + metadata_page);
    const auto* const entries =
        reinterpret_cast<const std::uint32_t*>(metadata + shape.checksums_at() + place.checksum_page * page_size);
    const std::uint32_t expected = entries[place.entry];
    if (expected == 0) {
        return {};
    }
    const std::uint32_t found = base::page_checksum({metadata + metadata_page * page_size, page_size});
    if (found != expected) {
        return damaged(location_.paths().segment(segment),
                       fmt::format("checksum of page {}", shape.pages() + metadata_page), found, expected);
    }
    return {};
}

base::result<void> live_bitmaps::verify_tables(bool has_checksums) {
    if (!has_checksums) {
        return {};  // the allocating layers check what they read
    }
    const geometry& shape = mapping_.view().shape();
    const std::uint64_t segments = mapping_.segment_count(mapping_.frontier());
    for (std::uint64_t segment = 0; segment < segments; ++segment) {
        const std::byte* const checksums = mapping_.view().metadata_of(segment) + shape.checksums_at();
        const std::uint64_t first = place_of_checksum(shape.pages()).checksum_page;
        for (std::uint64_t i = first; i < shape.checksum_pages(); ++i) {
            const std::span entries(reinterpret_cast<const std::uint32_t*>(checksums + i * page_size),
                                    checksums_per_page + 1);
            if (entries.back() != 0 && entries.back() != own_checksum(entries)) {
                return damaged(location_.paths().segment(segment), fmt::format("checksum of checksum page {}", i),
                               own_checksum(entries), entries.back());
            }
        }
        for (std::uint64_t page = 0; page < shape.bitmaps_at() / page_size; ++page) {
            HF_TRY(verify_mapped_page(segment, page));
        }
    }
    admit_none();
    return {};
}

void live_bitmaps::admit_none() {
    const base::scoped_lock lock(admitted_mutex_);
    admitted_.assign(mapping_.segment_count(mapping_.frontier()) * pages_of_segment(), false);
}

base::result<void> live_bitmaps::admit(base::granule position) {
    const geometry& shape = mapping_.view().shape();
    const std::uint64_t segment = position.value / shape.granules();
    const std::uint64_t page = position.value % shape.granules() * bitmap_size / page_size;
    const std::uint64_t index = segment * pages_of_segment() + page;
    // A second caller may change the page as soon as it gets the lock.
    const base::scoped_lock lock(admitted_mutex_);
    if (index >= admitted_.size() || admitted_[index]) {
        return {};
    }
    HF_TRY(verify_mapped_page(segment, shape.bitmaps_at() / page_size + page));
    admitted_[index] = true;
    return {};
}

base::result<void> live_bitmaps::admit_all() {
    const std::uint64_t granules = mapping_.segment_count(mapping_.frontier()) * mapping_.view().shape().granules();
    constexpr std::uint64_t granules_a_page = page_size / bitmap_size;
    for (std::uint64_t granule = 0; granule < granules; granule += granules_a_page) {
        HF_TRY(admit({granule}));
    }
    return {};
}

/// Bitmaps get their space when they need it, those of a region at once; on a full disk, one page.
base::result<void> live_bitmaps::back(base::granule position, slab_is use) {
    const geometry& shape = mapping_.view().shape();
    constexpr std::uint64_t together = region_size / base::granule_size * bitmap_size / page_size;
    const std::uint64_t segment = position.value / shape.granules();
    const std::uint64_t page = position.value % shape.granules() * bitmap_size / page_size;
    const auto is_fresh = [&] { return !location_.is_scratch() && base::first_page(position) >= mapping_.adopted(); };
    if (use == slab_is::made && (location_.shared() || is_fresh())) {
        populate(mapping_.view().base() + base::offset_of(position).value, base::granule_size);
    }
    const base::scoped_lock lock(backed_mutex_);
    const std::uint64_t index = segment * pages_of_segment() + page;
    if ((index < backed_.size() && backed_[index]) || location_.is_scratch()) {
        return {};
    }
    HF_TRY(location_.check_process());
    if (!location_.is_writer()) {
        return {};
    }
    const base::cancellation_off until_done;
    HF_TRY_ASSIGN(const auto file, segments_.open(segment));
    const auto preferred = location_.near(segment);
    const auto reserve = [&](std::uint64_t first, std::uint64_t count) {
        const std::uint64_t at = shape.segment_size + shape.bitmaps_at() + first * page_size;
        return file->allocate(at, count * page_size, "space.back_bitmap");
    };
    std::uint64_t first = base::align_down(page, together);
    std::uint64_t count = together;
    if (!location_.has_room({count}) || !reserve(first, count)) {
        first = page;
        count = 1;
        HF_TRY(reserve(first, count));
    }
    if (location_.sharing() == page_sharing::shared_sync) {
        HF_TRY(file->sync("space.back_bitmap.sync"));
    }
    if (index >= backed_.size()) {
        backed_.resize((segment + 1) * pages_of_segment(), false);
    }
    const auto begin = backed_.begin() + static_cast<std::ptrdiff_t>(segment * pages_of_segment() + first);
    std::fill_n(begin, count, true);
    return {};
}

base::result<void> live_bitmaps::back_again(base::granule position) {
    if (!location_.shared() || location_.is_in_memory() || has_bitmap(position)) {
        return {};
    }
    return back(position, slab_is::loaded);
}

bool live_bitmaps::has_bitmap(base::granule position) {
    if (location_.is_scratch()) {
        return true;
    }
    const geometry& shape = mapping_.view().shape();
    const std::uint64_t segment = position.value / shape.granules();
    const std::uint64_t at = shape.segment_size + shape.bitmaps_at() + position.value % shape.granules() * bitmap_size;
    const base::scoped_lock lock(backed_mutex_);
    if (segment != examined_segment_ || position.value % shape.granules() == 0) {
        auto file = location_.storage().open(location_.paths().segment(segment), access_mode::read_only);
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

void live_bitmaps::forget_beyond(std::uint64_t segments) {
    const base::scoped_lock lock(backed_mutex_);
    backed_.resize(std::min<std::size_t>(backed_.size(), segments * pages_of_segment()));
}

}  // namespace holdfast::segment
