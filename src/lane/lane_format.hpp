// Lanes on media (docs/format.md, "Lanes"). Little endian.
//
//     [ page 0: head | lane 0 | lane 1 | ... ]      a lane: [ header page | slots of 64 bytes ]
//
// The superblock holds the number of slots of a lane, the record_order, and the incarnation.
// segment/format/lanes_format.hpp says where lanes lie in files: this layer sees them all in one range.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "persist/domain.hpp"
#include "segment/format/lanes_format.hpp"

namespace holdfast::lane {

using segment::lane_header_size;
using segment::lane_size;
using segment::lanes_at;
using segment::lanes_file_size;
using segment::maximum_lanes;

/// "No destination", "no block".
inline constexpr std::uint64_t nowhere = ~std::uint64_t{0};

/// The kind of a block in a block word: bits 0..39 length, bits 40..43 kind, bits 44..63 type number. For small blocks
/// and slabs bit 39 is not part of the length: if it is set, their bits lie in the upper half of the slab's live
/// bitmap. A record that frees a slab and allocates another one in its place morphs the slab.
enum class block_kind : std::uint8_t {
    none = 0,
    small = 1,  ///< a block of a slab; length: its bytes
    pages = 2,  ///< a block of whole pages; length: pages
    slab = 3,   ///< a granule of small blocks; length: bytes of one block
};

inline constexpr unsigned block_length_bits = 40;
inline constexpr std::uint64_t block_length_mask = (std::uint64_t{1} << block_length_bits) - 1;
inline constexpr unsigned block_type_shift = block_length_bits + 4;
inline constexpr std::uint64_t upper_half = std::uint64_t{1} << (block_length_bits - 1);

struct block_word {
    block_kind kind = block_kind::none;
    std::uint64_t length = 0;
    std::uint32_t type = 0;  ///< below segment::type_limit
    bool upper = false;      ///< small, slab: see block_kind
    constexpr bool operator==(const block_word&) const = default;
};
[[nodiscard]] constexpr std::uint64_t encode(block_word word) noexcept {
    return (word.length & block_length_mask) | (word.upper ? upper_half : 0) |
           (static_cast<std::uint64_t>(word.kind) << block_length_bits) |
           (static_cast<std::uint64_t>(word.type) << block_type_shift);
}
[[nodiscard]] constexpr block_word decode_block(std::uint64_t word) noexcept {
    const auto kind = static_cast<block_kind>((word >> block_length_bits) & 0xf);
    const bool upper = (kind == block_kind::small || kind == block_kind::slab) && (word & upper_half) != 0;
    return {kind, word & block_length_mask & ~(upper ? upper_half : 0),
            static_cast<std::uint32_t>(word >> block_type_shift), upper};
}

/// One durable operation. Offsets are bytes from the heap's base. The functions below pack `destination`.
struct record_on_media {
    std::uint64_t checksum;         ///< XXH3-64 of the bytes behind it, seeded by heap, incarnation and lane; never 0
    std::uint64_t sequence;         ///< number of the record in its lane, from 1 on, and its flags above (group_flag).
                                    ///< It lies in slot number % slots
    std::uint64_t time;             ///< by the heap's clock; never decreases within a lane
    std::uint64_t destination;      ///< offset (48 bits) | new stamp of the word (16 bits) << 48; or nowhere
    std::uint64_t allocated;        ///< offset of the block that this operation allocates, or nowhere
    std::uint64_t allocated_block;  ///< its block_word
    std::uint64_t freed;            ///< offset of the block that this operation frees, or nowhere
    std::uint64_t freed_block;      ///< its block_word
};
static_assert(sizeof(record_on_media) == segment::lane_slot_size);
static_assert(offsetof(record_on_media, sequence) == 8);
static_assert(offsetof(record_on_media, time) == 16);
static_assert(offsetof(record_on_media, destination) == 24);
static_assert(offsetof(record_on_media, allocated) == 32);
static_assert(offsetof(record_on_media, freed) == 48);

[[nodiscard]] constexpr std::uint64_t encode_destination(std::uint64_t offset, std::uint16_t stamp) noexcept {
    return offset | (std::uint64_t{stamp} << 48U);
}
[[nodiscard]] constexpr std::uint64_t destination_offset(std::uint64_t destination) noexcept {
    return destination & ((std::uint64_t{1} << 48U) - 1);
}
[[nodiscard]] constexpr std::uint16_t destination_stamp(std::uint64_t destination) noexcept {
    return static_cast<std::uint16_t>(destination >> 48U);
}

// Groups: what one transaction writes. Records of one time and of numbers that follow each other, each with group_flag,
// the last one, which is a data record, also with last_flag and with their number. They count together or not at all.
inline constexpr unsigned sequence_bits = 56;
inline constexpr std::uint64_t sequence_mask = (std::uint64_t{1} << sequence_bits) - 1;
inline constexpr std::uint64_t group_flag = std::uint64_t{1} << 63U;
inline constexpr std::uint64_t last_flag = std::uint64_t{1} << 62U;
inline constexpr std::uint64_t data_flag = std::uint64_t{1} << 61U;

[[nodiscard]] constexpr std::uint64_t number_of(const record_on_media& record) noexcept {
    return record.sequence & sequence_mask;
}
[[nodiscard]] constexpr bool has_flag(const record_on_media& record, std::uint64_t flag) noexcept {
    return (record.sequence & flag) != 0;
}

/// A data record holds words that its group stores, one behind the other: in the place of `destination` their offset
/// (48 bits), their number (3 bits) and, in the last record of a group, the number of its records (13 bits); in the
/// place of the four fields behind it the words.
inline constexpr std::size_t data_words = 4;
inline constexpr std::uint64_t largest_group = (std::uint64_t{1} << 13U) - 1;
inline constexpr unsigned data_count_shift = 48;
inline constexpr unsigned group_count_shift = 51;

struct data_place {
    std::uint64_t offset = 0;
    std::uint64_t words = 0;  ///< at most data_words
    std::uint64_t group = 0;  ///< records of the group; 0 in all records but the last
    constexpr bool operator==(const data_place&) const = default;
};
[[nodiscard]] constexpr std::uint64_t encode(data_place place) noexcept {
    return place.offset | place.words << data_count_shift | place.group << group_count_shift;
}
[[nodiscard]] constexpr data_place decode_data(std::uint64_t word) noexcept {
    return {destination_offset(word), word >> data_count_shift & 7U, word >> group_count_shift};
}
[[nodiscard]] constexpr std::array<std::uint64_t, data_words> words_of(const record_on_media& data) noexcept {
    return {data.allocated, data.allocated_block, data.freed, data.freed_block};
}

/// The number of words by which the last record of a group says that the group goes on in a payload: an array of
/// records in free memory of the heap, which was durable before this record. Its words are a payload_place.
inline constexpr std::uint64_t payload_marker = 7;
struct payload_place {
    std::uint64_t offset = 0;  ///< from the heap's base, a multiple of 64
    std::uint64_t records = 0;
    std::uint64_t checksum = 0;  ///< of the payload (record.hpp)
};
[[nodiscard]] constexpr bool has_payload(const record_on_media& record) noexcept {
    return has_flag(record, data_flag) && decode_data(record.destination).words == payload_marker;
}
[[nodiscard]] constexpr payload_place payload_of(const record_on_media& record) noexcept {
    return {record.allocated, record.allocated_block, record.freed};
}

/// One of two copies of a number that only grows, which are written in turn. LANE-19 (head.hpp) says which is in force.
struct sealed_number_on_media {
    std::uint64_t number;
    std::uint64_t seal;  ///< XXH3-64 of the number, seeded by its kind and the heap's key (head.hpp)
};
static_assert(sizeof(sealed_number_on_media) == 16);
inline constexpr std::size_t sealed_copies = 2;

/// The begin of page 0.
struct lanes_head_on_media {
    sealed_number_on_media checkpoint_times[sealed_copies];  ///< of the last checkpoint
    sealed_number_on_media lane_counts[sealed_copies];       ///< lanes that may have been used
};
static_assert(sizeof(lanes_head_on_media) == 64);
static_assert(offsetof(lanes_head_on_media, lane_counts) == 32);

/// In page 0: what the protocol has cost the writer that has the heap open. Nothing depends on it, so it is written by
/// plain stores and never flushed.
struct writer_counters_on_media {
    std::uint64_t generation;  ///< grows by 2; odd while the rest is written
    std::uint64_t incarnation;
    std::uint64_t process;
    std::uint64_t counters[10];  ///< in the order of lane_statistics
    std::uint64_t seal;          ///< XXH3-64 of the words before it, seeded by heap and incarnation; never 0
};
static_assert(sizeof(writer_counters_on_media) == 112);
static_assert(offsetof(writer_counters_on_media, counters) == 24);
inline constexpr std::uint64_t writer_counters_at = 1024;

/// The first line of a lane.
struct lane_header_on_media {
    std::uint64_t completed;  ///< order `in_flight`: records up to this sequence are complete
    std::uint64_t reserved[7];
};
static_assert(sizeof(lane_header_on_media) == 64);

inline constexpr std::uint64_t minimum_slots = 64;
inline constexpr std::uint64_t maximum_slots = 65536;
inline constexpr std::uint64_t default_slots = 8192;
/// The largest time and, below, the largest sequence on media (LANE-27): both continue above what media hold and must
/// not wrap around.
inline constexpr std::uint64_t largest_number = std::uint64_t{1} << 63U;
inline constexpr std::uint64_t largest_sequence = std::uint64_t{1} << (sequence_bits - 1);
/// The slots that record_order::in_flight uses: few, so that they stay in the processor's cache.
inline constexpr std::uint64_t in_flight_slots = 64;

// Each lane is mapped by itself where the lanes lie in several files. The slots are a power of two.
static_assert(lanes_at % base::page_size == 0 && lane_size(minimum_slots) % base::page_size == 0);
// What else lies in the first page of a file.
static_assert(sizeof(lanes_head_on_media) <= writer_counters_at);
static_assert(writer_counters_at + sizeof(writer_counters_on_media) <= segment::lanes_identity_at);

/// Which records count after a crash.
enum class record_order : std::uint32_t {
    clock = 1,      ///< records newer than the last checkpoint, in the order of their times
    in_flight = 2,  ///< records beyond their lane's `completed`; no store of the others is lost (page cache)
    logged = 3,     ///< as `clock`, but the slots of the first log_lanes lanes are one log of all lanes' records (disk)
};

static_assert(static_cast<std::uint32_t>(record_order::logged) == segment::logged_records);

/// The order of the records that a session in that domain writes.
[[nodiscard]] constexpr record_order order_in(persist::domain_kind domain) noexcept {
    switch (domain) {
        case persist::domain_kind::page_cache: return record_order::in_flight;
        case persist::domain_kind::disk: return record_order::logged;
        default: return record_order::clock;
    }
}

/// Whether records count by their times.
[[nodiscard]] constexpr bool is_by_clock(record_order order) noexcept { return order != record_order::in_flight; }

// In order `logged` a record may lie in any slot of the log. Its checksum is seeded as that of lane 0, and its number
// says its lane: numbers of lane k begin behind k << log_lane_shift.
inline constexpr std::uint64_t log_lanes = 16;
inline constexpr unsigned log_lane_shift = 44;
inline constexpr std::uint64_t records_per_block = base::page_size / sizeof(record_on_media);
static_assert(minimum_slots % records_per_block == 0);
static_assert(maximum_lanes << log_lane_shift <= largest_sequence);

}  // namespace holdfast::lane
