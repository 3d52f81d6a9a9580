// A commit as records of the log (docs/format.md, "Commits"). Little endian. The payload of a record:
//
//     record_commit   commit_head_on_media, superblock, entries
//     record_part     entries of the commit whose record follows
//
// An entry is commit_entry_on_media and what its kind needs; each part of a payload begins at a multiple of 8.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "segment/format/geometry.hpp"

namespace holdfast::segment {

/// Other ids are indices of segments.
inline constexpr std::uint64_t objects_file_id = (std::uint64_t{1} << 24) - 1;
inline constexpr unsigned place_page_bits = 40;

inline constexpr std::uint64_t last_page_of_place = (std::uint64_t{1} << place_page_bits) - 1;

/// Bits 0..39 page within the file, bits 40..63 file id.
[[nodiscard]] constexpr std::uint64_t place_of(std::uint64_t file, std::uint64_t page) noexcept {
    return file << place_page_bits | page;
}
[[nodiscard]] constexpr std::uint64_t file_of(std::uint64_t place) noexcept { return place >> place_page_bits; }
[[nodiscard]] constexpr std::uint64_t page_of_place(std::uint64_t place) noexcept { return place & last_page_of_place; }

/// The directory of objects, slab headers, page entries and bitmaps: what an open heap keeps in memory in another form.
/// Checksums are none of them.
[[nodiscard]] constexpr bool is_of_tables(const geometry& shape, std::uint64_t place) noexcept {
    const std::uint64_t page = page_of_place(place);
    return file_of(place) == objects_file_id || (page >= shape.pages() && page < shape.summed_pages());
}

inline constexpr std::uint16_t record_commit = 1;
inline constexpr std::uint16_t record_part = 2;

struct commit_head_on_media {
    std::uint32_t superblock_size;  ///< bytes that follow; all behind them are zero, but for the checksum
    std::uint32_t parts;            ///< records before this one that belong to the commit
};
static_assert(sizeof(commit_head_on_media) == 8);

enum class entry_kind : std::uint32_t {
    ranges = 1,  ///< `count` changed_range_on_media, their bytes one after the other
    pages = 2,   ///< the content of `count` pages
    home = 3,    ///< `count` pages that were home before the record: no earlier entry of them counts
};

struct commit_entry_on_media {
    std::uint64_t place;
    entry_kind kind;
    std::uint32_t count;
};
static_assert(sizeof(commit_entry_on_media) == 16);

struct changed_range_on_media {
    std::uint16_t offset;  ///< in the page
    std::uint16_t length;  ///< not 0
};
static_assert(sizeof(changed_range_on_media) == 4);

}  // namespace holdfast::segment
