#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "log/log_files.hpp"
#include "persist/storage.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

/// Not written by a commit: first pages and lengths, sorted, disjoint.
using free_runs = std::vector<std::pair<base::pages, base::pages>>;

/// Addresses without search or lock, while the heap is open. Thread-safe. Tables are mapped for all pages below the
/// frontier.
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
    /// In bytes.
    [[nodiscard]] std::uint64_t reservation() const noexcept { return reservation_; }

    [[nodiscard]] std::byte* address(base::heap_offset offset) const noexcept { return base_ + offset.value; }
    /// An address below the base wraps to a huge offset: callers compare offsets with the frontier.
    [[nodiscard]] base::heap_offset offset(const void* address) const noexcept {
        return {reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(base_)};
    }

    /// The page lies below the frontier.
    [[nodiscard]] std::uint64_t& page_entry_word(base::pages page) const noexcept {
        const std::uint64_t in_segment = page.value & (shape_.pages() - 1);
        return *reinterpret_cast<std::uint64_t*>(metadata_of(page.value >> page_shift_) + shape_.page_entries_at() +
                                                 in_segment * page_entry_size);
    }
    /// The page of that entry.
    [[nodiscard]] base::pages page_of_entry(const std::uint64_t* word) const noexcept {
        const auto at = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(word) - metadata_);
        return {at / metadata_size_ * shape_.pages() +
                (at % metadata_size_ - shape_.page_entries_at()) / page_entry_size};
    }
    [[nodiscard]] slab_header_on_media& slab_header(base::granule position) const noexcept {
        const std::uint64_t in_segment = position.value & (shape_.granules() - 1);
        return *reinterpret_cast<slab_header_on_media*>(metadata_of(segment_of(position)) + shape_.slab_headers_at() +
                                                        in_segment * slab_header_size);
    }
    /// 128 words. Block i has bit i % 64 of word i / 64, counted from upper_bitmap_word where the slab has
    /// slab_flags::upper_half. The older blocks of a morphed slab have the other half.
    [[nodiscard]] std::uint64_t* live_bitmap(base::granule position) const noexcept {
        const std::uint64_t in_segment = position.value & (shape_.granules() - 1);
        return reinterpret_cast<std::uint64_t*>(metadata_of(segment_of(position)) + shape_.bitmaps_at() +
                                                in_segment * bitmap_size);
    }
    /// The granule whose live bitmap has the word; nothing for all other words of the heap.
    [[nodiscard]] std::optional<base::granule> granule_of_bitmap(const std::uint64_t* word) const noexcept {
        const std::uint64_t at = reinterpret_cast<std::uintptr_t>(word) - reinterpret_cast<std::uintptr_t>(metadata_);
        const std::uint64_t in_segment = at % metadata_size_;
        if (offset(word).value < reservation_ || in_segment < shape_.bitmaps_at() ||
            in_segment >= shape_.bitmaps_at() + shape_.granules() * bitmap_size) {
            return std::nullopt;
        }
        return base::granule{at / metadata_size_ * shape_.granules() +
                             (in_segment - shape_.bitmaps_at()) / bitmap_size};
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

/// Growth of the user space, and space on disk for its pages.
class space_growth {
public:
    space_growth() = default;
    space_growth(const space_growth&) = delete;
    space_growth& operator=(const space_growth&) = delete;
    virtual ~space_growth() = default;

    /// The end of the mapped pages, a multiple of unit(). Pages below it may have no space on disk.
    [[nodiscard]] virtual base::pages frontier() const noexcept = 0;
    /// A region; less in crash tests.
    [[nodiscard]] virtual base::pages unit() const noexcept { return {region_size / base::page_size}; }
    /// Returns the added pages. They hold anything; their page entries are zero. The first `wanted` pages at least, and
    /// all below backed_end(), have space on disk; the others must not be stored to before reserve_again(). On failure
    /// (no_space, limit) nothing is changed. The caller holds the extent lock.
    virtual base::result<base::pages> grow(base::pages wanted) = 0;

    /// Grows by `skipped` pages, not to be stored to before reserve_again(), and then by `wanted` to `most`, or more if
    /// `wanted` needs it.
    virtual base::result<base::pages> grow_beyond(base::pages skipped, base::pages wanted, base::pages /*most*/) {
        return grow(skipped + wanted);
    }

    /// The end of what the last growth reserved. The caller serialises it with grow().
    [[nodiscard]] virtual base::pages backed_end() const noexcept { return frontier(); }
    /// Pages from here on lie in files that the last growth has made: nobody has ever stored to their entries. The
    /// caller serialises it with grow().
    [[nodiscard]] virtual base::pages made_from() const noexcept { return frontier(); }
    /// What one reserve_again() from page `at` on should reserve: at most `most`, because a long call keeps others
    /// waiting, in pieces that begin and end at multiples of `least`.
    struct steps {
        base::pages least;
        base::pages most;
    };
    [[nodiscard]] virtual steps reserve_steps(base::pages /*at*/) const noexcept { return {{64}, {4096}}; }
    /// Comes before the program gets so much memory to store to. Fails with out_of_memory where memory that waits for a
    /// commit must not become more. Thread-safe.
    [[nodiscard]] virtual base::result<void> admit(base::pages /*more*/) { return {}; }
    /// Whether the disk has so much to spare. Otherwise callers reserve_again() only what they need: some file systems
    /// fail only after they have taken the rest.
    [[nodiscard]] virtual bool has_room(base::pages /*wanted*/) const noexcept { return true; }

    /// Whether free pages may be given back while the heap is in use. In durability `commit` the last commit may need
    /// them.
    [[nodiscard]] virtual bool gives_back_at_once() const noexcept = 0;
    /// Free pages that may keep their space for a while, huge extents (extent::huge_length) included; 0: those give it
    /// back at once.
    [[nodiscard]] virtual base::pages may_linger() const noexcept { return {}; }
    /// Turns free pages into a hole, which reads as zero. A store before reserve_again() would be a SIGBUS on a full
    /// disk. Thread-safe for disjoint ranges.
    virtual base::result<void> give_back(base::pages start, base::pages length) = 0;
    /// Reserves disk space for pages that may have none. On no_space nothing is changed. Thread-safe for disjoint
    /// ranges.
    virtual base::result<void> reserve_again(base::pages start, base::pages length) = 0;
    /// Makes the heap end at page `to`, a multiple of unit() below the frontier, durably, and removes the segments
    /// beyond. No page beyond may be in use, nor named by anything that a recovery reads. Only where
    /// gives_back_at_once(). The caller serialises it with grow(). On failure frontier() is either `to` or the old end.
    virtual base::result<void> shrink(base::pages to) = 0;
};

/// This process's access to pages (guard ranges); media do not know it. Thread-safe for disjoint ranges.
class page_access {
public:
    page_access() = default;
    page_access(const page_access&) = delete;
    page_access& operator=(const page_access&) = delete;
    virtual ~page_access() = default;

    enum class rights : std::uint8_t { none, read };
    /// The pages lie below the frontier, belong to the caller and hold nothing. Private pages lose their stores since
    /// the last commit. A touch is a SIGSEGV from here on. On failure (`limit`: out of mappings) they stay accessible.
    virtual base::result<void> protect(base::pages start, base::pages length, rights left) = 0;
    /// On failure nothing is changed.
    virtual base::result<void> unprotect(base::pages start, base::pages length) = 0;
    /// Each range adds two mappings.
    [[nodiscard]] virtual std::uint64_t most_ranges() const = 0;
};

/// Where the log of the domain `disk` lies (lane/record_log.hpp).
struct log_home {
    persist::storage* storage = nullptr;
    log::log_place place;
};

inline constexpr const char* hint_without_room_for_lanes =
    "make room; or open the heap in the durability in which it was last open, and free blocks there";

/// The redo rings (lane/) as one range: the head, then lane by lane.
class lane_area {
public:
    lane_area() = default;
    lane_area(const lane_area&) = delete;
    lane_area& operator=(const lane_area&) = delete;
    virtual ~lane_area() = default;

    [[nodiscard]] virtual std::byte* lanes() const noexcept = 0;
    /// Mapped and reserved on disk, in bytes.
    [[nodiscard]] virtual std::uint64_t lanes_size() const noexcept = 0;
    /// Grows to `bytes`, durably; new bytes are zero, or records that do not count. Fails with no_space or limit.
    virtual base::result<void> grow_lanes(std::uint64_t bytes) = 0;
    [[nodiscard]] virtual log_home log() const { return {}; }
};

/// Verifies live bitmaps, each page when it is first used. Thread-safe.
class bitmap_verifier {
public:
    bitmap_verifier() = default;
    bitmap_verifier(const bitmap_verifier&) = delete;
    bitmap_verifier& operator=(const bitmap_verifier&) = delete;
    virtual ~bitmap_verifier() = default;

    /// Comes before the first read or change of a granule's live bitmap. `corrupt` where it differs from what was
    /// committed.
    virtual base::result<void> admit(base::granule position) = 0;
    /// Comes before a granule is used as a slab; reserves disk space for its live bitmap. Fails with no_space.
    enum class slab_is : std::uint8_t {
        made,    ///< all pages have space on disk, and blocks are about to fill them
        loaded,  ///< pages without a live block may be holes, and stay so
    };
    virtual base::result<void> back(base::granule position, slab_is use) = 0;
    /// Whether the file has the live bitmap. On tmpfs, reading a hole through the mapping takes space, and is a SIGBUS
    /// on a full one.
    [[nodiscard]] virtual bool has_bitmap(base::granule position) = 0;
};

}  // namespace holdfast::segment
