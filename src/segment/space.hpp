// The mapped heap as the allocating layers see it: a base, the metadata tables, and a way to ask for more.
//
// space_view is arithmetic and one load: no search, no lock. Its tables are mapped for all pages below the frontier.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "persist/storage.hpp"
#include "segment/format/geometry.hpp"
#include "segment/format/segment_format.hpp"

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
    /// The offset of an address. It wraps to a huge number where the address lies below the base: callers compare it
    /// with the frontier.
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
    /// 128 words. The bit of block i is bit i % 64 of word i / 64, counted from upper_bitmap_word where the slab has
    /// slab_flags::upper_half. The older blocks of a morphed slab have their bits in the other half.
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

/// Growth of the user space, and space on disk for its pages. Implemented by segment::user_space, and by a fake in the
/// tests of extent and slab.
class space_growth {
public:
    space_growth() = default;
    space_growth(const space_growth&) = delete;
    space_growth& operator=(const space_growth&) = delete;
    virtual ~space_growth() = default;

    /// The end of the user space: the first page that is not mapped. A multiple of unit(). Pages below it may have no
    /// space on disk (grow(), give_back()).
    [[nodiscard]] virtual base::pages frontier() const noexcept = 0;
    /// The unit of the frontier: a region; less in the small heaps of crash tests.
    [[nodiscard]] virtual base::pages unit() const noexcept { return {region_size / base::page_size}; }
    /// Extends the user space by at least `wanted` pages; by more where the growth policy says so and there is room.
    /// New pages hold anything; their page entries are zero. Returns the number of added pages. The first `wanted`
    /// pages at least, and all below backed_end(), have space on disk; the others must not be stored to before
    /// take_back(). On failure nothing is changed (no_space, limit). Not thread-safe: the caller holds the extent lock.
    virtual base::result<base::pages> grow(base::pages wanted) = 0;

    /// Extends the user space as grow() does, and puts `skipped` pages in front of the `wanted` ones. The skipped pages
    /// may have no space on disk and must not be stored to before take_back(). The space grows by at most `skipped` and
    /// `most` pages, unless `wanted` needs more.
    virtual base::result<base::pages> grow_beyond(base::pages skipped, base::pages wanted, base::pages /*most*/) {
        return grow(skipped + wanted);
    }

    /// The end of the pages that the last growth reserved on disk. Serialised with grow() by the caller.
    [[nodiscard]] virtual base::pages backed_end() const noexcept { return frontier(); }
    /// How many pages one take_back() from page `at` on should reserve: at most `most`, because a long call keeps
    /// others waiting; at least `least`, at multiples of which its pieces begin and end.
    struct steps {
        base::pages least;
        base::pages most;
    };
    [[nodiscard]] virtual steps reserve_steps(base::pages /*at*/) const noexcept { return {{64}, {4096}}; }
    /// Whether the disk has space for so many pages beyond what is needed. Where it has not, callers ask take_back()
    /// only for what they need: some file systems fail only after they have taken the space that was left.
    [[nodiscard]] virtual bool has_room(base::pages /*wanted*/) const noexcept { return true; }

    /// Whether free pages may be given back while the heap is in use. In durability `commit` they may not, because the
    /// last commit may still need them: a commit gives them back.
    [[nodiscard]] virtual bool gives_back_at_once() const noexcept = 0;
    /// How many free pages, all together, may keep their space for a while where one of them was a huge extent
    /// (extent::huge_length). With 0, that goes back when it is freed.
    [[nodiscard]] virtual base::pages may_linger() const noexcept { return {}; }
    /// Gives the disk space of free pages back: they become a hole, which reads as zero. They must not be stored to
    /// before take_back() has succeeded: on a full disk the store would be a SIGBUS. Thread-safe for disjoint ranges.
    virtual base::result<void> give_back(base::pages start, base::pages length) = 0;
    /// Reserves disk space for pages that may have none. On no_space nothing is changed. Thread-safe for disjoint
    /// ranges.
    virtual base::result<void> take_back(base::pages start, base::pages length) = 0;
    /// Makes the heap end at page `to`, a multiple of unit() below the frontier, durably. The segments beyond go back
    /// to the file system. No page beyond may be in use, and nothing that a recovery reads may refer to one. Only where
    /// gives_back_at_once(). Serialised with grow() by the caller. On failure frontier() is the heap's end: either `to`
    /// or the old end.
    virtual base::result<void> shrink(base::pages to) = 0;
};

/// Takes away this process's access to pages, and gives it back: for guard ranges, which nobody may touch. Nothing of
/// this is on media. Implemented by segment::heap_mapping. Thread-safe for disjoint ranges.
class page_access {
public:
    page_access() = default;
    page_access(const page_access&) = delete;
    page_access& operator=(const page_access&) = delete;
    virtual ~page_access() = default;

    /// The access that is left.
    enum class rights : std::uint8_t { none, read };
    /// Takes access to pages away. They lie below the frontier, belong to the caller and hold nothing. Where pages are
    /// private, stores to them since the last commit are forgotten, so that no commit reads them. A touch is a SIGSEGV
    /// from here on. On failure (`limit`: the process is out of mappings) they stay accessible.
    virtual base::result<void> protect(base::pages start, base::pages length, rights left) = 0;
    /// Makes the pages readable and writable again. On failure nothing is changed.
    virtual base::result<void> unprotect(base::pages start, base::pages length) = 0;
    /// How many ranges a process should have at most: each adds two mappings.
    [[nodiscard]] virtual std::uint64_t most_ranges() const = 0;
};

/// Writes to the file of lanes past its mapping. One thread writes at a time.
class log_writer {
public:
    log_writer() = default;
    log_writer(const log_writer&) = delete;
    log_writer& operator=(const log_writer&) = delete;
    virtual ~log_writer() = default;

    /// Whole pages of the file, from memory that begins at a multiple of a page; durable when it returns. After a
    /// failure, any part of the range may be old or new.
    virtual base::result<void> write(std::uint64_t offset, std::span<const std::byte> data,
                                     persist::site where) noexcept = 0;
    /// Whether all of the range was written before: then writing it changes no metadata of the file system.
    [[nodiscard]] virtual bool is_written(std::uint64_t offset, std::uint64_t length) noexcept = 0;
};

/// Where the redo rings lie (lane/), as one range: the head, then lane by lane. Implemented by segment::lane_file; by
/// memory in tests.
class lane_area {
public:
    lane_area() = default;
    lane_area(const lane_area&) = delete;
    lane_area& operator=(const lane_area&) = delete;
    virtual ~lane_area() = default;

    /// The lanes as mapped.
    [[nodiscard]] virtual std::byte* lanes() const noexcept = 0;
    /// Bytes of it that are mapped and reserved on disk.
    [[nodiscard]] virtual std::uint64_t lanes_size() const noexcept = 0;
    /// Extends the range to so many bytes, durably; new bytes read as zero, or hold records that do not count. Fails
    /// with no_space or limit.
    virtual base::result<void> grow_lanes(std::uint64_t bytes) = 0;
    /// For records that are written by system calls. Fails with unsupported where the lanes are no one file.
    virtual base::result<std::unique_ptr<log_writer>> open_log();
};

inline base::result<std::unique_ptr<log_writer>> lane_area::open_log() {
    base::failure what;
    what.code = base::failure_code::unsupported;
    return what;
}

/// Verifies live bitmaps. An open verifies page entries and slab headers, which it reads in any case. The bitmaps are
/// much larger; each page of them is verified when it is first used. Implemented by segment::live_bitmaps. Thread-safe.
class bitmap_verifier {
public:
    bitmap_verifier() = default;
    bitmap_verifier(const bitmap_verifier&) = delete;
    bitmap_verifier& operator=(const bitmap_verifier&) = delete;
    virtual ~bitmap_verifier() = default;

    /// Comes before the first read or change of a granule's live bitmap. `corrupt` where it differs from what was
    /// committed.
    virtual base::result<void> admit(base::granule position) = 0;
    /// Comes before a granule is used as a slab, made or loaded: from then on its live bitmap has space on disk. Fails
    /// with no_space.
    enum class slab_is : std::uint8_t {
        made,    ///< all pages of the granule have space on disk, and blocks are about to fill them
        loaded,  ///< pages without a live block may be holes, and stay so
    };
    virtual base::result<void> back(base::granule position, slab_is use) = 0;
    /// Whether the file has a live bitmap for the granule. On some file systems (tmpfs) to read a hole through the
    /// mapping asks for space, and is a SIGBUS on a full one. For checks: may look at the file.
    [[nodiscard]] virtual bool has_bitmap(base::granule position) = 0;
};

}  // namespace holdfast::segment
