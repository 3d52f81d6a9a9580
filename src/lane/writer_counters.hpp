// The counters of a running writer, in page 0 of `lanes`, for other processes to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lane/lane.hpp"
#include "lane/lane_format.hpp"

namespace holdfast::lane {

/// Calls that write to one place exclude each other; whoever reads meanwhile finds a seal that does not fit.
void store_writer_counters(writer_counters_on_media& to, std::uint64_t heap_key, std::uint64_t incarnation,
                           const lane_statistics& counters) noexcept;

struct writer_counters {
    std::uint64_t process = 0;
    lane_statistics counters;
};

/// Of a copy of page 0. Nothing where they are torn, or of another heap or incarnation, or were never written.
[[nodiscard]] std::optional<writer_counters> read_writer_counters(std::span<const std::byte> page,
                                                                  std::uint64_t heap_key, std::uint64_t incarnation);

}  // namespace holdfast::lane
