// The checksum of each page, in memory as on media (docs/format.md, "checksum pages"). A segment keeps 32-bit
// checksums: 1023 in a checksum page, whose last entry is its own. The objects file keeps 64-bit checksums in the first
// page of each group of 512, whose entry 0 is its own. A checksum of 0 is not compared: the page was never written, or
// is in a hole.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "base/checksum.hpp"
#include "base/units.hpp"
#include "segment/format/geometry.hpp"

namespace holdfast::segment {

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

}  // namespace holdfast::segment
