// Records of a log on media (docs/format.md, "Log files"). Little endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/checksum.hpp"
#include "base/units.hpp"

namespace holdfast::log {

struct record_header_on_media {
    std::uint64_t checksum;          ///< of the fields behind it, seeded by the log's key
    std::uint64_t before;            ///< checksum of the record before; of a log's first record: 0
    std::uint64_t sequence;          ///< from 1 on
    std::uint64_t epoch;             ///< of the writer
    std::uint64_t payload_checksum;  ///< seeded by the log's key
    std::uint32_t size;              ///< bytes of payload, behind the header
    std::uint16_t kind;              ///< the caller's
    std::uint16_t in_doubt;          ///< so many records directly before it were perhaps not durable when it was made
};
static_assert(sizeof(record_header_on_media) == 48);
static_assert(offsetof(record_header_on_media, before) == 8);
static_assert(offsetof(record_header_on_media, sequence) == 16);
static_assert(offsetof(record_header_on_media, epoch) == 24);
static_assert(offsetof(record_header_on_media, payload_checksum) == 32);
static_assert(offsetof(record_header_on_media, size) == 40);
static_assert(offsetof(record_header_on_media, kind) == 44);
static_assert(offsetof(record_header_on_media, in_doubt) == 46);
/// Of `in_doubt`: so many or more.
inline constexpr std::uint64_t most_in_doubt = 65'535;

/// Where a record ends. Of an empty log: all zero.
struct mark {
    std::uint64_t position = 0;
    std::uint64_t sequence = 0;
    std::uint64_t checksum = 0;
    friend bool operator==(const mark&, const mark&) = default;
};
static_assert(sizeof(mark) == 24);

inline constexpr std::uint64_t record_alignment = 8;
inline constexpr std::uint64_t header_size = sizeof(record_header_on_media);
/// The files' size is a multiple of a page.
inline constexpr std::uint64_t least_file_size = 2 * base::page_size;
inline constexpr std::uint64_t largest_file_size = base::gibibyte;

[[nodiscard]] constexpr std::uint64_t space_of(std::uint64_t payload) noexcept {
    return (header_size + payload + record_alignment - 1) / record_alignment * record_alignment;
}

[[nodiscard]] inline std::uint64_t checksum_of(const record_header_on_media& header, std::uint64_t key) noexcept {
    return base::checksum64(std::as_bytes(std::span{&header, 1}).subspan(sizeof header.checksum), key);
}

}  // namespace holdfast::log
