// How often media write that take 256 bytes at a time: lines go to buffers of that size, and the one that was longest
// without a line goes to the media when another is needed (Optane has 64 of them in a module). And what bookkeeping
// would cost them that writes where the extent is, or to a log (PMAlloc, TOCS 2024, 5.3).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "flush_trace/recording_domain.hpp"

namespace holdfast::flush_trace {

class media_buffers {
public:
    static constexpr std::uint64_t lines_of_one = 4;

    void write(std::uint64_t line) {
        const std::uint64_t wanted = line / lines_of_one + 1;  // 0: empty
        const auto found = std::find(buffers_.begin(), buffers_.end(), wanted);
        if (found == buffers_.end()) {
            ++writes_;  // of what it holds now, sooner or later
        }
        std::rotate(buffers_.begin(), found == buffers_.end() ? found - 1 : found,
                    found == buffers_.end() ? found : found + 1);
        buffers_.front() = wanted;
    }
    [[nodiscard]] std::uint64_t writes() const noexcept { return writes_; }

private:
    std::array<std::uint64_t, 64> buffers_{};
    std::uint64_t writes_ = 0;
};

/// A call that makes or frees one extent.
struct noted_call {
    std::size_t writes = 0;  ///< of the trace, when it has returned
    std::uint64_t entry_line = 0;
};

struct bookkeeping {
    std::uint64_t ours = 0;      ///< records, and lines of tables with checkpoints
    std::uint64_t in_place = 0;  ///< the same records, and the entry of the extent with each call
    std::uint64_t by_log = 0;    ///< the same records, and 8 bytes of a log with each call; nothing cleans the log
};

/// `counts`: whether a write is one of records or tables, and not of what the program has.
template <class Counts>
bookkeeping bookkeeping_of(const std::vector<media_write>& writes, const std::vector<noted_call>& calls,
                           Counts counts) {
    constexpr std::uint64_t log_at = std::uint64_t{1} << 50U;
    constexpr std::uint64_t entries_of_a_line = 8;
    media_buffers ours;
    media_buffers in_place;
    media_buffers by_log;
    std::size_t at = 0;
    for (std::uint64_t number = 0; number < calls.size(); ++number) {
        for (; at < calls[number].writes; ++at) {
            if (counts(writes[at])) {
                ours.write(writes[at].line);
            }
            if (writes[at].kind == write_kind::record) {
                in_place.write(writes[at].line);
                by_log.write(writes[at].line);
            }
        }
        in_place.write(calls[number].entry_line);
        by_log.write(log_at + number / entries_of_a_line);
    }
    return {.ours = ours.writes(), .in_place = in_place.writes(), .by_log = by_log.writes()};
}

}  // namespace holdfast::flush_trace
