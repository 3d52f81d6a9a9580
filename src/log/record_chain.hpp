// What makes a record count (LOG-1), wherever its bytes lie: in the files of log/log.hpp, or in those of a caller that
// keeps its records elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.hpp"
#include "log/log_format.hpp"

namespace holdfast::log {

struct record {
    std::uint16_t kind = 0;
    std::uint64_t epoch = 0;
    mark end;
    std::span<const std::byte> payload;  ///< until the reader is asked for the next one
};

/// From the system, for epochs and for marks where logs begin that no other log has.
[[nodiscard]] base::result<std::uint64_t> random_number();

/// The header at the start of `bytes`, where it is that of the record behind `before`.
[[nodiscard]] std::optional<record_header_on_media> next_header(std::span<const std::byte> bytes, const mark& before,
                                                                std::uint64_t key) noexcept;
/// With the header that next_header() found at the start of `bytes`, where the record lies at this position. False: it
/// does not count, or ends behind them.
[[nodiscard]] bool read_record(const record_header_on_media& header, std::span<const std::byte> bytes,
                               std::uint64_t position, std::uint64_t key, record& found) noexcept;

struct record_identity {
    std::uint16_t kind = 0;
    std::uint64_t epoch = 0;
    std::uint64_t key = 0;
    /// So many records directly before it may not be durable. Nobody asks this of a caller's own files.
    std::uint64_t in_doubt = 0;
};
/// Makes the record that lies where `before` ends, of a payload of `size` bytes that has room for a header before it
/// and, up to the end of `bytes`, for the zeros behind it. Returns its mark.
mark seal(std::span<std::byte> bytes, std::uint64_t size, const mark& before, const record_identity& identity) noexcept;

}  // namespace holdfast::log
