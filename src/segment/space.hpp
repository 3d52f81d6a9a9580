// The mapped heap as the allocating layers see it: a base, the metadata tables, and a way to ask for more.
//
// space_view is arithmetic and one load: no search, no lock. Its tables are mapped for all pages below the frontier.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "segment/geometry.hpp"
#include "segment/segment_format.hpp"

namespace holdfast::segment {

/// Free space that a commit need not write, as first pages and lengths: sorted, disjoint.
using free_runs = std::vector<std::pair<base::pages, base::pages>>;

/// Addresses of a mapped heap. Trivially copyable; valid while the heap is open. Thread safety: pure arithmetic.
class space_view {
public:
    space_view() = default;
    space_view(std::byte* user_base, std::byte* metadata_base, geometry shape, std::uint64_t reservation) noexcept
        : base_(user_base),
          metadata_(metadata_base),
          reservation_(reservation),
          metadata_size_(shape.metadata_size()),
          page_shift_(static_cast<unsigned>(std::countr_zero(shape.pages()))),
          shape_(shape) {}

    [[nodiscard]] std::byte* base() const noexcept { return base_; }
    [[nodiscard]] const geometry& shape() const noexcept { return shape_; }
    /// Bytes of user addresses reserved.
    [[nodiscard]] std::uint64_t reservation() const noexcept { return reservation_; }

    [[nodiscard]] std::byte* address(base::heap_offset offset) const noexcept { return base_ + offset.value; }
    /// The offset of an address; wraps to a huge number where the address lies below the base: compare with the
    /// frontier.
    [[nodiscard]] base::heap_offset offset(const void* address) const noexcept {
        return {reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(base_)};
    }

    /// The page entry of a page below the frontier.
    [[nodiscard]] std::uint64_t& page_entry_word(base::pages page) const noexcept {
        const std::uint64_t in_segment = page.value & (shape_.pages() - 1);
        return *reinterpret_cast<std::uint64_t*>(metadata_of(page.value >> page_shift_) + shape_.page_entries_at() +
                                                 in_segment * page_entry_size);
    }
    [[nodiscard]] slab_header_on_media& slab_header(base::granule position) const noexcept {
        const std::uint64_t in_segment = position.value & (shape_.granules() - 1);
        return *reinterpret_cast<slab_header_on_media*>(metadata_of(segment_of(position)) + shape_.slab_headers_at() +
                                                        in_segment * slab_header_size);
    }
    /// 128 words, one bit a block (bit i of word i/64); bits beyond the slab's block count are zero.
    [[nodiscard]] std::uint64_t* live_bitmap(base::granule position) const noexcept {
        const std::uint64_t in_segment = position.value & (shape_.granules() - 1);
        return reinterpret_cast<std::uint64_t*>(metadata_of(segment_of(position)) + shape_.bitmaps_at() +
                                                in_segment * bitmap_size);
    }
    [[nodiscard]] std::byte* metadata_of(std::uint64_t segment_index) const noexcept {
        return metadata_ + segment_index * metadata_size_;
    }

private:
    [[nodiscard]] std::uint64_t segment_of(base::granule position) const noexcept {
        return position.value >> (page_shift_ - 4);
    }

    std::byte* base_ = nullptr;
    std::byte* metadata_ = nullptr;
    std::uint64_t reservation_ = 0;
    std::uint64_t metadata_size_ = 0;
    unsigned page_shift_ = 0;
    geometry shape_{};
};
static_assert(base::pages_per_granule == 16, "segment_of(granule) shifts by 4");

/// Asks the layer below for more user space. Implemented by segment::heap_files; by a fake in the tests of extent and
/// slab.
class space_growth {
public:
    space_growth() = default;
    space_growth(const space_growth&) = delete;
    space_growth& operator=(const space_growth&) = delete;
    virtual ~space_growth() = default;

    /// The first page beyond the user space that is mapped and reserved on disk. A multiple of unit().
    [[nodiscard]] virtual base::pages frontier() const noexcept = 0;
    /// Of what the frontier is a multiple: a region; less in the small heaps of crash tests.
    [[nodiscard]] virtual base::pages unit() const noexcept { return {region_size / base::page_size}; }
    /// Extends the user space by at least `wanted` pages (more, where the growth policy says so and there is room); new
    /// pages read as zero or as anything, their page entries are zero. Returns the pages added. Nothing changed on
    /// failure (no_space, limit). Not thread-safe: the caller holds the extent lock.
    virtual base::result<base::pages> grow(base::pages wanted) = 0;

    /// The same, by `skipped` pages more, which come first and need have no space on disk: they must not be stored to
    /// before take_back(). In all the space grows by no more than `skipped` and `most` pages.
    virtual base::result<base::pages> grow_beyond(base::pages skipped, base::pages wanted, base::pages /*most*/) {
        return grow(skipped + wanted);
    }

    /// Whether free pages may be given back while the heap is in use. Where not (durability `commit`: the last commit
    /// may still need them), a commit does it.
    [[nodiscard]] virtual bool gives_back_at_once() const noexcept = 0;
    /// Gives the disk space of free pages back: a hole, which reads as zero. They must not be stored to before
    /// take_back() has succeeded: a full disk would be a SIGBUS. Thread-safe for disjoint ranges.
    virtual base::result<void> give_back(base::pages start, base::pages length) = 0;
    /// Reserves disk space for pages that may have none. no_space: nothing is changed. Thread-safe for disjoint ranges.
    virtual base::result<void> take_back(base::pages start, base::pages length) = 0;
    /// Makes the heap end at page `to`, a multiple of unit() below the frontier, durably; the segments beyond go back
    /// to the file system. No page beyond is used, and nothing that a recovery would believe speaks of one. Not where
    /// commits give back. Serialised with grow() by the caller. On failure frontier() says where the heap ends: at `to`
    /// or where it did.
    virtual base::result<void> shrink(base::pages to) = 0;
};

/// Takes this process's access to pages away, and gives it back: for guard ranges, which nobody may touch. Nothing of
/// it is on media. Implemented by segment::heap_files. Thread-safe for disjoint ranges.
class page_access {
public:
    page_access() = default;
    page_access(const page_access&) = delete;
    page_access& operator=(const page_access&) = delete;
    virtual ~page_access() = default;

    /// What is left of it.
    enum class rights : std::uint8_t { none, read };
    /// Pages below the frontier that are the caller's and hold nothing. Where pages are private, what was stored there
    /// since the last commit is forgotten, so that no commit asks for it. A touch is a SIGSEGV from here on. Where it
    /// fails (`limit`: the process is out of mappings), they can be touched as before.
    virtual base::result<void> forbid(base::pages start, base::pages length, rights left) = 0;
    /// They can be read and written again. On failure nothing is changed.
    virtual base::result<void> permit(base::pages start, base::pages length) = 0;
    /// How many ranges a process should have at the most: each is two mappings more.
    [[nodiscard]] virtual std::uint64_t most_ranges() const = 0;
};

/// Where the redo rings lie (lane/). Implemented by segment::heap_files; by memory in tests.
class lane_area {
public:
    lane_area() = default;
    lane_area(const lane_area&) = delete;
    lane_area& operator=(const lane_area&) = delete;
    virtual ~lane_area() = default;

    /// The file `lanes` as mapped.
    [[nodiscard]] virtual std::byte* lanes() const noexcept = 0;
    /// Bytes of it that are mapped and reserved on disk.
    [[nodiscard]] virtual std::uint64_t lanes_size() const noexcept = 0;
    /// Extends it to so many bytes, durably; new bytes read as zero. no_space, limit.
    virtual base::result<void> grow_lanes(std::uint64_t bytes) = 0;
};

/// Vouches for live bitmaps. An open verifies page entries and slab headers, which it reads anyway; the bitmaps, ten
/// times as large, are verified page by page when they are first used. Implemented by segment::heap_files. Thread-safe.
class bitmap_guard {
public:
    bitmap_guard() = default;
    bitmap_guard(const bitmap_guard&) = delete;
    bitmap_guard& operator=(const bitmap_guard&) = delete;
    virtual ~bitmap_guard() = default;

    /// Comes before the first read or change of a granule's live bitmap. `corrupt` where it is not what was committed.
    virtual base::result<void> admit(base::granule position) = 0;
    /// Comes before a granule becomes a slab: its live bitmap has space on disk from then on. no_space.
    virtual base::result<void> back(base::granule position) = 0;
    /// Whether the file has anything there. To read a hole through the mapping is to ask for space on some file systems
    /// (tmpfs): on a full one, a SIGBUS. For checks: may look at the file.
    [[nodiscard]] virtual bool has_bitmap(base::granule position) = 0;
};

}  // namespace holdfast::segment
