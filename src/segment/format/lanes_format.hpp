// Where each lane lies in the files `lanes`, and whose a file is (docs/format.md, "Lanes"). Little endian.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.hpp"

namespace holdfast::segment {

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

}  // namespace holdfast::segment
