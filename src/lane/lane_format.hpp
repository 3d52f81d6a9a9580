// Lanes on media (docs/format.md, "Lanes"): [ page 0: head | lane 0 | lane 1 | ... ]; a lane: [ header page | slots ].
// This layer sees the files of segment/format/heap_format.hpp as one range.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "log/log_format.hpp"
#include "persist/domain.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::lane {

using segment::lane_header_size;
using segment::lane_size;
using segment::lanes_at;
using segment::lanes_file_size;
using segment::maximum_lanes;

inline constexpr std::uint64_t nowhere = ~std::uint64_t{0};

/// A record that frees a slab and allocates another in its place morphs the slab.
enum class block_kind : std::uint8_t {
    none = 0,
    small = 1,  ///< length: bytes
    pages = 2,  ///< length: pages
    slab = 3,   ///< length: bytes of one block
};

inline constexpr unsigned block_length_bits = 40;
inline constexpr std::uint64_t block_length_mask = (std::uint64_t{1} << block_length_bits) - 1;
inline constexpr unsigned block_type_shift = block_length_bits + 4;
inline constexpr std::uint64_t upper_half = std::uint64_t{1} << (block_length_bits - 1);

struct block_word {
    block_kind kind = block_kind::none;
    std::uint64_t length = 0;
    std::uint32_t type = 0;
    bool upper = false;  ///< in the slab's live bitmap
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

struct record_on_media {
    std::uint64_t checksum;     ///< of the rest, seeded by heap, incarnation and lane; never 0
    std::uint64_t sequence;     ///< number in its lane, from 1 on, and flags
    std::uint64_t time;         ///< never decreases within a lane
    std::uint64_t destination;  ///< offset (48 bits) and stamp, or nowhere
    std::uint64_t allocated;    ///< offset, or nowhere
    std::uint64_t allocated_block;
    std::uint64_t freed;  ///< offset, or nowhere
    std::uint64_t freed_block;
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

// A group is what one transaction writes. All its records count, or none (LANE-29).
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

/// Successive words that the group stores: a data_place in `destination`, and the words in the four fields behind it.
inline constexpr std::size_t data_words = 4;
inline constexpr std::uint64_t largest_group = (std::uint64_t{1} << 13U) - 1;
inline constexpr unsigned data_count_shift = 48;
inline constexpr unsigned group_count_shift = 51;

struct data_place {
    std::uint64_t offset = 0;
    std::uint64_t words = 0;
    std::uint64_t group = 0;  ///< records, in the last one; else 0
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

/// A last record with this number of words holds a payload_place: its group goes on in records in free memory.
inline constexpr std::uint64_t payload_marker = 7;
struct payload_place {
    std::uint64_t offset = 0;
    std::uint64_t records = 0;
    std::uint64_t checksum = 0;
};
[[nodiscard]] constexpr bool has_payload(const record_on_media& record) noexcept {
    return has_flag(record, data_flag) && decode_data(record.destination).words == payload_marker;
}
[[nodiscard]] constexpr payload_place payload_of(const record_on_media& record) noexcept {
    return {record.allocated, record.allocated_block, record.freed};
}

/// `seal`: of the value, seeded by its kind and the heap's key.
template <class Value>
struct sealed_on_media {
    Value value;
    std::uint64_t seal;
};
inline constexpr std::size_t sealed_copies = 2;

struct checkpoint_on_media {
    std::uint64_t time;   ///< T
    log::mark log_begin;  ///< order `logged`: records behind it may count; else zero
};
static_assert(sizeof(checkpoint_on_media) == 32);
static_assert(offsetof(checkpoint_on_media, log_begin) == 8);
/// Position of a log of which no record counts, whatever its files hold.
inline constexpr std::uint64_t nothing_logged = ~std::uint64_t{0};

struct lanes_head_on_media {
    sealed_on_media<checkpoint_on_media> checkpoints[sealed_copies];
    sealed_on_media<std::uint64_t> lane_counts[sealed_copies];  ///< that may have been used
};
static_assert(sizeof(lanes_head_on_media) == 112);
static_assert(offsetof(lanes_head_on_media, lane_counts) == 80);

/// Nothing depends on the counters, which are never flushed.
struct writer_counters_on_media {
    std::uint64_t generation;  ///< odd while the rest is written
    std::uint64_t incarnation;
    std::uint64_t process;
    std::uint64_t counters[10];  ///< in the order of lane_statistics
    std::uint64_t seal;
};
static_assert(sizeof(writer_counters_on_media) == 112);
static_assert(offsetof(writer_counters_on_media, counters) == 24);
inline constexpr std::uint64_t writer_counters_at = 1024;

struct lane_header_on_media {
    std::uint64_t completed;  ///< order `in_flight`: records up to this one are complete
    std::uint64_t reserved[7];
};
static_assert(sizeof(lane_header_on_media) == 64);

inline constexpr std::uint64_t minimum_slots = 64;
inline constexpr std::uint64_t maximum_slots = 65536;
inline constexpr std::uint64_t default_slots = 8192;
/// Both continue above what media hold, and must not wrap around (LANE-27).
inline constexpr std::uint64_t largest_number = std::uint64_t{1} << 63U;
inline constexpr std::uint64_t largest_sequence = std::uint64_t{1} << (sequence_bits - 1);
inline constexpr std::uint64_t in_flight_slots = 64;

static_assert(lanes_at % base::page_size == 0 && lane_size(minimum_slots) % base::page_size == 0);
static_assert(sizeof(lanes_head_on_media) <= writer_counters_at);
static_assert(writer_counters_at + sizeof(writer_counters_on_media) <= segment::lanes_identity_at);

enum class record_order : std::uint32_t {
    clock = 1,      ///< newer than the last checkpoint, in the order of their times
    in_flight = 2,  ///< beyond their lane's `completed`: no other store is lost (page cache)
    logged = 3,     ///< as `clock`, but in a log of all lanes, in files of its own (disk)
};

static_assert(static_cast<std::uint32_t>(record_order::logged) == segment::logged_records);

[[nodiscard]] constexpr record_order order_in(persist::domain_kind domain) noexcept {
    switch (domain) {
        case persist::domain_kind::page_cache: return record_order::in_flight;
        case persist::domain_kind::disk: return record_order::logged;
        default: return record_order::clock;
    }
}

[[nodiscard]] constexpr bool is_by_clock(record_order order) noexcept { return order != record_order::in_flight; }

// In order `logged` the numbers of lane k begin behind k << log_lane_shift.
inline constexpr unsigned log_lane_shift = 44;
static_assert(maximum_lanes << log_lane_shift <= largest_sequence);

}  // namespace holdfast::lane
