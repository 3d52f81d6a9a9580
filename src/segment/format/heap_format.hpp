// What the files of a heap hold, and where (docs/format.md). Little endian.
//
//   superblock     two copies of superblock_on_media; one good copy suffices
//   segments/N     [ user pages | slab headers | page entries | live bitmaps | checksum pages ]
//   objects        the directory of objects, and 64-bit checksums of its pages
//   log.N          records (log/log_format.hpp); a commit is some of them (commit_head_on_media)
//   lanes          [ page 0: head | lane 0 | lane 1 | ... ], each [ header page | slots ] (lane/lane_format.hpp)
//   node           in the directory of a NUMA node: node_marker_on_media
//
// In memory:       [ metadata of segments 0, 1, ... | objects area | guard | base: user space of 0, 1, ... ]
// So an extent may cross segments, and an overrun of a block meets another block or the unmapped end, never metadata.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/checksum.hpp"
#include "base/under_qemu.hpp"
#include "base/units.hpp"
#include "log/log_format.hpp"

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

// --- a segment's metadata (docs/format.md, section "segment") ---

enum class extent_kind : std::uint8_t {
    none = 0,  ///< inside an extent, or beyond the frontier
    free = 1,
    used = 2,  ///< one block
    slab = 3,
    roots = 4,     ///< 512 roots, the rest unused
    reserved = 5,  ///< taken and not published: free after a crash
};

/// 0: none.
inline constexpr unsigned type_bits = 20;
inline constexpr std::uint32_t type_limit = std::uint32_t{1} << type_bits;

/// One word, so that an extent appears, grows or vanishes with a single store: bits 0..39 length in pages; bits 40..43
/// kind; bits 44..63 the type number of a used block, else zero. Entries inside an extent mean nothing.
struct page_entry {
    extent_kind kind = extent_kind::none;
    base::pages length{};
    std::uint32_t type = 0;  ///< below type_limit
    constexpr bool operator==(const page_entry&) const = default;
};

inline constexpr unsigned page_entry_length_bits = 40;
inline constexpr unsigned page_entry_type_shift = page_entry_length_bits + 4;
static_assert(page_entry_type_shift + type_bits == 64);
inline constexpr std::uint64_t page_entry_length_mask = (std::uint64_t{1} << page_entry_length_bits) - 1;

[[nodiscard]] constexpr std::uint64_t encode(page_entry entry) noexcept {
    return (entry.length.value & page_entry_length_mask) |
           (static_cast<std::uint64_t>(entry.kind) << page_entry_length_bits) |
           (std::uint64_t{entry.type} << page_entry_type_shift);
}
/// Valid iff encode(decode(word)) == word and the kind is known.
[[nodiscard]] constexpr page_entry decode_page_entry(std::uint64_t word) noexcept {
    return {static_cast<extent_kind>((word >> page_entry_length_bits) & 0xf),
            {word & page_entry_length_mask},
            static_cast<std::uint32_t>(word >> page_entry_type_shift)};
}
[[nodiscard]] constexpr bool is_valid_page_entry(std::uint64_t word) noexcept {
    const page_entry entry = decode_page_entry(word);
    return entry.kind <= extent_kind::reserved && (entry.type == 0 || entry.kind == extent_kind::used);
}

/// Meaningful iff the page entry of its first page has kind slab.
struct slab_header_on_media {
    std::uint32_t block_size;   ///< bytes; a size class
    std::uint32_t block_count;  ///< granule_size / block_size
    std::uint64_t flags;
    std::uint64_t type;  ///< of all blocks, below type_limit; 0: none
    std::uint64_t reserved[5];
};
static_assert(sizeof(slab_header_on_media) == 64);
static_assert(offsetof(slab_header_on_media, flags) == 8);
static_assert(alignof(slab_header_on_media) == 8);

/// Bit 0: upper_half; bit 1: may_have_holes; bits 16..31: old_block_size.
struct slab_flags {
    bool upper_half = false;           ///< its blocks' bits lie in the upper half of the live bitmap
    std::uint32_t old_block_size = 0;  ///< of older blocks, with bits in the other half; 0: none
    bool may_have_holes = false;       ///< pages without a live block may lack space on disk
};
inline constexpr unsigned old_block_size_shift = 16;
inline constexpr std::uint64_t slab_flag_may_have_holes = 2;
[[nodiscard]] constexpr std::uint64_t encode(slab_flags flags) noexcept {
    return (flags.upper_half ? 1U : 0U) | (flags.may_have_holes ? slab_flag_may_have_holes : 0) |
           std::uint64_t{flags.old_block_size} << old_block_size_shift;
}
[[nodiscard]] constexpr slab_flags decode_slab_flags(std::uint64_t word) noexcept {
    return {(word & 1) != 0, static_cast<std::uint32_t>(word >> old_block_size_shift) & 0xffff,
            (word & slab_flag_may_have_holes) != 0};
}
inline constexpr std::uint64_t upper_bitmap_word = base::granule_size / 8 / 64 / 2;
/// Bytes. Slabs of smaller blocks need the whole bitmap.
inline constexpr std::uint32_t least_morphed_block = 16;

// --- the checksum of each page, in memory as on media (docs/format.md, "checksum pages") ---
//
// A segment keeps 32-bit
// checksums: 1023 in a checksum page, whose last entry is its own. The objects file keeps 64-bit checksums in the first
// page of each group of 512, whose entry 0 is its own. A checksum of 0 is not compared: the page was never written, or
// is in a hole.

inline constexpr std::uint64_t objects_group_pages = base::page_size / sizeof(std::uint64_t);

struct checksum_place {
    std::uint64_t checksum_page = 0;
    std::uint64_t entry = 0;
};
[[nodiscard]] constexpr checksum_place place_of_checksum(std::uint64_t file_page) noexcept {
    return {file_page / checksums_per_page, file_page % checksums_per_page};
}

[[nodiscard]] inline std::uint32_t own_checksum(std::span<const std::uint32_t> checksum_page) noexcept {
    return base::page_checksum(std::as_bytes(checksum_page.first(checksums_per_page)));
}
/// Never 0.
[[nodiscard]] constexpr std::uint32_t narrow_checksum(std::uint64_t checksum) noexcept {
    const auto low = static_cast<std::uint32_t>(checksum);
    return low == 0 ? 1U : low;
}
[[nodiscard]] constexpr std::uint64_t nonzero_checksum(std::uint64_t checksum) noexcept {
    return checksum == 0 ? 1 : checksum;
}
[[nodiscard]] inline std::uint64_t own_group_checksum(std::span<const std::uint64_t> group_page) noexcept {
    return nonzero_checksum(base::checksum64(std::as_bytes(group_page.subspan(1))));
}

// --- a `holdfast::ptr` word (docs/format.md, section "pointers") ---
//
// Bits 0..47: distance in bytes from the word to its target, plus 2^47; 0 is null. Bits 48..63: the stamp.

inline constexpr unsigned pointer_distance_bits = 48;
inline constexpr std::uint64_t pointer_distance_mask = (std::uint64_t{1} << pointer_distance_bits) - 1;
inline constexpr std::uint64_t pointer_distance_bias = std::uint64_t{1} << (pointer_distance_bits - 1);

[[nodiscard]] constexpr std::uint16_t stamp_of(std::uint64_t word) noexcept {
    return static_cast<std::uint16_t>(word >> pointer_distance_bits);
}
[[nodiscard]] constexpr bool is_null_pointer(std::uint64_t word) noexcept {
    return (word & pointer_distance_mask) == 0;
}
[[nodiscard]] constexpr std::uint64_t null_pointer(std::uint16_t stamp) noexcept {
    return std::uint64_t{stamp} << pointer_distance_bits;
}
/// Addresses, or offsets from one base: only their difference counts.
[[nodiscard]] constexpr std::uint64_t encode_pointer(std::uint64_t from, std::uint64_t to,
                                                     std::uint16_t stamp) noexcept {
    return null_pointer(stamp) | ((to - from + pointer_distance_bias) & pointer_distance_mask);
}
/// The word is not null.
[[nodiscard]] constexpr std::uint64_t decode_pointer(std::uint64_t from, std::uint64_t word) noexcept {
    return from + (word & pointer_distance_mask) - pointer_distance_bias;
}

// --- the superblock (docs/format.md, section "superblock"): two copies, at bytes 0 and 4096 ---

inline constexpr char superblock_magic[8] = {'H', 'O', 'L', 'D', 'F', 'A', 'S', 'T'};
inline constexpr std::uint32_t format_version = 2;
inline constexpr std::uint64_t superblock_size = 4096;
inline constexpr std::uint64_t superblock_copies = 2;

enum class heap_state : std::uint32_t {
    clean = 1,       ///< the log has nothing and nothing lies beyond the frontier
    running = 2,     ///< a writer had it open: commits may be in the log
    recovering = 3,  ///< not used
};

inline constexpr std::uint32_t flag_same_address = 1U << 0U;
/// Durability `atomic` has it open: records in `lanes` may count.
inline constexpr std::uint32_t flag_lanes = 1U << 1U;
/// Pages were changed in place after their checksums were stored (durability `atomic` or `collect`).
inline constexpr std::uint32_t flag_stale_checksums = 1U << 2U;
/// Durability `collect` has it open: after a crash live bitmaps mean nothing, and what the roots reach is allocated.
inline constexpr std::uint32_t flag_tracing = 1U << 3U;
/// All block sizes are multiples of 64 bytes, for ever.
inline constexpr std::uint32_t flag_separate_lines = 1U << 4U;
inline constexpr std::uint32_t flag_lanes_by_node = 1U << 5U;
/// The log has its first file, and may have commits.
inline constexpr std::uint32_t flag_log = 1U << 6U;
inline constexpr std::uint32_t known_flags = flag_same_address | flag_lanes | flag_stale_checksums | flag_tracing |
                                             flag_separate_lines | flag_lanes_by_node | flag_log;

/// The clock goes on from at most this, and has as much room again.
inline constexpr std::uint64_t largest_clock = std::uint64_t{1} << 63U;

inline constexpr std::uint32_t maximum_nodes = 64;

inline constexpr std::uint64_t least_log_file_size = std::uint64_t{1} << 20;
/// Bytes of a superblock that have a meaning, without the checksum.
inline constexpr std::uint64_t superblock_used = 208;

struct superblock_on_media {
    char magic[8];
    std::uint32_t version;
    std::uint32_t size;
    std::uint64_t sequence;  ///< creation is commit 1
    std::uint8_t uuid[16];
    std::uint64_t heap_key;      ///< of allocators inside the heap and of copies, too; never 0
    std::uint64_t segment_size;  ///< bytes of user space
    std::uint64_t reservation;   ///< bytes; 0: the default
    std::uint64_t base_address;  ///< binding with flag_same_address
    std::uint64_t frontier;      ///< bytes; a multiple of region_size
    std::uint64_t objects_size;  ///< bytes; a multiple of page_size
    std::uint64_t capacity;      ///< of frontier; 0: none
    heap_state state;
    std::uint32_t flags;
    std::int64_t created_ns;  ///< since 1970, UTC
    std::int64_t committed_ns;
    std::uint64_t checkpoint_clock;  ///< at the close in durability atomic
    std::uint64_t recoveries;        ///< opens after a crash
    std::uint64_t incarnation;       ///< opens for writing in durability atomic
    std::uint32_t lane_slots;        ///< a power of two; 0: no lanes
    std::uint32_t record_order;      ///< lane_format.hpp; 0: no lanes
    std::uint32_t nodes;             ///< whose directories hold the segments by turns; 0: the heap's does
    std::uint32_t unused;
    std::uint64_t file_identity;  ///< 0: none
    std::uint64_t boot;           ///< in a session that survives process crashes alone; else 0
    log::mark log_begin;          ///< the log has the commits behind it
    std::uint64_t log_file_size;  ///< a power of two
    std::uint8_t reserved[4088 - 208];
    std::uint64_t checksum;  ///< of the bytes before it
};
static_assert(sizeof(superblock_on_media) == superblock_size);
static_assert(offsetof(superblock_on_media, sequence) == 16);
static_assert(offsetof(superblock_on_media, uuid) == 24);
static_assert(offsetof(superblock_on_media, heap_key) == 40);
static_assert(offsetof(superblock_on_media, segment_size) == 48);
static_assert(offsetof(superblock_on_media, reservation) == 56);
static_assert(offsetof(superblock_on_media, base_address) == 64);
static_assert(offsetof(superblock_on_media, frontier) == 72);
static_assert(offsetof(superblock_on_media, objects_size) == 80);
static_assert(offsetof(superblock_on_media, capacity) == 88);
static_assert(offsetof(superblock_on_media, state) == 96);
static_assert(offsetof(superblock_on_media, flags) == 100);
static_assert(offsetof(superblock_on_media, created_ns) == 104);
static_assert(offsetof(superblock_on_media, committed_ns) == 112);
static_assert(offsetof(superblock_on_media, checkpoint_clock) == 120);
static_assert(offsetof(superblock_on_media, recoveries) == 128);
static_assert(offsetof(superblock_on_media, incarnation) == 136);
static_assert(offsetof(superblock_on_media, record_order) == 148);
static_assert(offsetof(superblock_on_media, nodes) == 152);
static_assert(offsetof(superblock_on_media, file_identity) == 160);
static_assert(offsetof(superblock_on_media, boot) == 168);
static_assert(offsetof(superblock_on_media, log_begin) == 176);
static_assert(offsetof(superblock_on_media, log_file_size) == 200);
static_assert(offsetof(superblock_on_media, reserved) == 208);
static_assert(offsetof(superblock_on_media, checksum) == 4088);

// --- a commit as records of the log (docs/format.md, "Commits") ---
//
// The payload of a record:
//
//     record_commit   commit_head_on_media, superblock, entries
//     record_part     entries of the commit whose record follows
//
// An entry is commit_entry_on_media and what its kind needs; each part of a payload begins at a multiple of 8.

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

// --- where each lane lies in the files `lanes`, and whose a file is (docs/format.md, "Lanes") ---

inline constexpr std::uint64_t lanes_at = base::page_size;
inline constexpr std::uint64_t lane_header_size = base::page_size;
inline constexpr std::uint64_t lane_slot_size = 64;
inline constexpr std::uint64_t maximum_lanes = 1024;
/// superblock_on_media::record_order with a log.
inline constexpr std::uint32_t logged_records = 3;

[[nodiscard]] constexpr std::uint64_t lane_size(std::uint64_t slots) noexcept {
    return lane_header_size + slots * lane_slot_size;
}
[[nodiscard]] constexpr std::uint64_t lanes_file_size(std::uint64_t lanes, std::uint64_t slots) noexcept {
    return lanes_at + lanes * lane_size(slots);
}

/// It lies in the first page of a node's file.
struct lanes_identity_on_media {
    char magic[8];
    std::uint8_t uuid[16];
    std::uint32_t node;
    std::uint32_t nodes;
    std::uint8_t reserved[24];
    std::uint64_t checksum;  ///< of the bytes before it
};
static_assert(sizeof(lanes_identity_on_media) == 64);
static_assert(offsetof(lanes_identity_on_media, uuid) == 8);
static_assert(offsetof(lanes_identity_on_media, node) == 24);
static_assert(offsetof(lanes_identity_on_media, nodes) == 28);
static_assert(offsetof(lanes_identity_on_media, checksum) == 56);
inline constexpr char lanes_magic[8] = {'H', 'F', 'S', 'T', 'L', 'A', 'N', 'E'};
inline constexpr std::uint64_t lanes_identity_at = 2048;

// --- the file `node` in the directory of a node (docs/format.md, section "nodes") ---

inline constexpr char node_magic[8] = {'H', 'F', 'S', 'T', 'N', 'O', 'D', 'E'};
inline constexpr std::uint32_t node_version = 1;
inline constexpr std::uint64_t node_marker_size = 4096;
inline constexpr std::uint64_t longest_heap_path = 4040;

struct node_marker_on_media {
    char magic[8];
    std::uint32_t version;
    std::uint32_t size;
    std::uint8_t uuid[16];
    std::uint32_t node;
    std::uint32_t nodes;
    std::uint32_t path_size;  ///< bytes of `heap` in use
    std::uint32_t reserved;
    char heap[longest_heap_path];  ///< the heap's directory when this one was made
    std::uint64_t checksum;        ///< of the bytes before it
};
static_assert(sizeof(node_marker_on_media) == node_marker_size);
static_assert(offsetof(node_marker_on_media, uuid) == 16);
static_assert(offsetof(node_marker_on_media, node) == 32);
static_assert(offsetof(node_marker_on_media, nodes) == 36);
static_assert(offsetof(node_marker_on_media, path_size) == 40);
static_assert(offsetof(node_marker_on_media, heap) == 48);
static_assert(offsetof(node_marker_on_media, checksum) == 4088);

}  // namespace holdfast::segment
