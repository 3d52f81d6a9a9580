// The counters of a running writer in page 0 of `lanes`, which other processes read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lane/lane.hpp"
#include "lane/lane_format.hpp"

namespace holdfast::lane {

/// Calls for one file must exclude each other. A process that reads meanwhile finds an odd generation or a seal that
/// does not fit.
void store_writer_counters(writer_counters_on_media& to, std::uint64_t heap_key, std::uint64_t incarnation,
                           const lane_statistics& counters) noexcept;

struct writer_counters {
    std::uint64_t process = 0;
    lane_statistics counters;
};

/// Reads the counters from a copy of page 0. Nothing where they are torn, of another heap or incarnation, or were never
/// written.
[[nodiscard]] std::optional<writer_counters> read_writer_counters(std::span<const std::byte> page,
                                                                  std::uint64_t heap_key, std::uint64_t incarnation);

}  // namespace holdfast::lane
