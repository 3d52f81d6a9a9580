#pragma once

#include <cstdint>
#include <span>

#include <xxhash.h>

#include "lane/lane_format.hpp"

namespace holdfast::lane {

/// Records of another heap, incarnation or lane do not count.
[[nodiscard]] inline std::uint64_t seed_of(std::uint64_t heap_key, std::uint64_t incarnation,
                                           std::uint64_t lane) noexcept {
    const std::uint64_t parts[3] = {heap_key, incarnation, lane};
    return XXH3_64bits(parts, sizeof parts);
}

[[nodiscard]] inline std::uint64_t checksum_of(const record_on_media& record, std::uint64_t seed) noexcept {
    const std::uint64_t checksum = XXH3_64bits_withSeed(&record.sequence, sizeof record - sizeof record.checksum, seed);
    return checksum == 0 ? 1 : checksum;
}

[[nodiscard]] inline std::uint64_t checksum_of(std::span<const record_on_media> payload, std::uint64_t seed) noexcept {
    return XXH3_64bits_withSeed(payload.data(), payload.size_bytes(), ~seed);
}

/// For the log, where a record may lie in any slot.
[[nodiscard]] inline bool is_whole(const record_on_media& record, std::uint64_t seed) noexcept {
    return record.checksum != 0 && number_of(record) != 0 && record.checksum == checksum_of(record, seed);
}

// LANE-18: a record counts only if its checksum fits and it lies in the slot of its sequence number.
[[nodiscard]] inline bool is_whole(const record_on_media& record, std::uint64_t seed, std::uint64_t slot,
                                   std::uint64_t slots) noexcept {
    return record.checksum != 0 && number_of(record) != 0 && (record.sequence & (slots - 1)) == slot &&
           record.checksum == checksum_of(record, seed);
}

}  // namespace holdfast::lane
