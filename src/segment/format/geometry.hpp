// Where everything of a heap lies, as arithmetic over the segment size.
//
// A segment file:       [ user pages | slab headers | page entries | live bitmaps | checksum pages ]
// The address range:    [ metadata of segments 0, 1, ... | objects area | guard | base: user space of 0, 1, ... ]
//
// So an extent may cross segments, and an overrun of a block meets another block or the unmapped end, never metadata.
#pragma once

#include <cstdint>

#include "base/under_qemu.hpp"
#include "base/units.hpp"

namespace holdfast::segment {

inline constexpr std::uint64_t minimum_segment_size = 2 * base::mebibyte;
inline constexpr std::uint64_t maximum_segment_size = 64 * base::gibibyte;
inline constexpr std::uint64_t default_segment_size = 256 * base::mebibyte;
/// The alignment of the base and of every growth; the largest that an allocation may ask for.
inline constexpr std::uint64_t region_size = 2 * base::mebibyte;
inline constexpr std::uint64_t region_pages = region_size / base::page_size;
inline constexpr std::uint64_t maximum_reservation = std::uint64_t{1} << 46;
/// Bytes of addresses.
inline constexpr std::uint64_t objects_area_size = base::under_qemu ? 64 * base::mebibyte : 4 * base::gibibyte;

inline constexpr std::uint64_t slab_header_size = 64;
inline constexpr std::uint64_t page_entry_size = 8;
/// Bytes: a bit for each 8, the smallest block.
inline constexpr std::uint64_t bitmap_size = base::granule_size / 64;
inline constexpr std::uint64_t checksum_entry_size = 4;
/// The last entry is the page's own checksum.
inline constexpr std::uint64_t checksums_per_page = base::page_size / checksum_entry_size - 1;

struct geometry {
    std::uint64_t segment_size = default_segment_size;

    [[nodiscard]] constexpr std::uint64_t pages() const noexcept { return segment_size / base::page_size; }
    [[nodiscard]] constexpr std::uint64_t granules() const noexcept { return segment_size / base::granule_size; }

    // Bytes from the begin of a segment's metadata.
    [[nodiscard]] constexpr std::uint64_t slab_headers_at() const noexcept { return 0; }
    [[nodiscard]] constexpr std::uint64_t page_entries_at() const noexcept {
        return base::align_up(granules() * slab_header_size, base::page_size);
    }
    [[nodiscard]] constexpr std::uint64_t bitmaps_at() const noexcept {
        return page_entries_at() + base::align_up(pages() * page_entry_size, base::page_size);
    }
    [[nodiscard]] constexpr std::uint64_t checksums_at() const noexcept {
        return bitmaps_at() + base::align_up(granules() * bitmap_size, base::page_size);
    }
    [[nodiscard]] constexpr std::uint64_t summed_pages() const noexcept {
        return pages() + checksums_at() / base::page_size;
    }
    [[nodiscard]] constexpr std::uint64_t checksum_pages() const noexcept {
        return base::divide_up(summed_pages(), checksums_per_page);
    }
    [[nodiscard]] constexpr std::uint64_t metadata_size() const noexcept {
        return checksums_at() + checksum_pages() * base::page_size;
    }
    [[nodiscard]] constexpr std::uint64_t file_size() const noexcept { return segment_size + metadata_size(); }

    [[nodiscard]] constexpr std::uint64_t segments_in(std::uint64_t reservation) const noexcept {
        return reservation / segment_size;
    }
    [[nodiscard]] constexpr bool valid() const noexcept {
        return base::is_power_of_two(segment_size) && segment_size >= minimum_segment_size &&
               segment_size <= maximum_segment_size;
    }
};

}  // namespace holdfast::segment
