// XXH3, seeded so that a page at another place, or of another time, is noticed.
#pragma once

#include <cstdint>
#include <span>

#include "store/page_format.hpp"
#include "store/store_format.hpp"

namespace holdfast::store_engine {

/// Of a page or run at `number`, but for the space between slots and nodes, which recovery does not restore.
[[nodiscard]] std::uint32_t page_checksum(const page_header& page, std::uint64_t number) noexcept;
[[nodiscard]] std::uint64_t meta_checksum(const meta_on_media& meta) noexcept;
[[nodiscard]] std::uint64_t bytes_checksum(std::span<const std::byte> bytes, std::uint64_t seed) noexcept;

}  // namespace holdfast::store_engine
