#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lane/lane.hpp"
#include "lane/lane_format.hpp"

namespace holdfast::lane {

/// Calls for one file exclude each other; who reads meanwhile notices it.
void store_writer_counters(writer_counters_on_media& to, std::uint64_t heap_key, std::uint64_t incarnation,
                           const lane_statistics& counters) noexcept;

struct writer_counters {
    std::uint64_t process = 0;
    lane_statistics counters;
};

/// `page`: a copy of page 0. Nothing where the counters are torn, or of another heap or incarnation.
[[nodiscard]] std::optional<writer_counters> read_writer_counters(std::span<const std::byte> page,
                                                                  std::uint64_t heap_key, std::uint64_t incarnation);

}  // namespace holdfast::lane
