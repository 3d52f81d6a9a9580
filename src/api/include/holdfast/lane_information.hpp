// What media say about the lanes, the redo rings of durability `atomic` (manager::lanes()), and what these cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

/// What durability `atomic` has cost since the heap was opened.
struct protocol_counters {
    std::uint64_t durable_records = 0;
    std::uint64_t fences = 0;
    std::uint64_t lines_flushed = 0;
    std::uint64_t reflushes = 0;    ///< lines flushed again after fewer than 4 others
    std::uint64_t media_bytes = 0;  ///< written: records, lines, times of checkpoints
    std::uint64_t checkpoints = 0;
    std::uint64_t checkpoint_ns = 0;  ///< of all of them
    std::uint64_t longest_checkpoint_ns = 0;
    std::uint64_t waits = 0;  ///< times that a call waited for a full ring
    std::uint64_t lanes = 0;
};

/// What a writer in durability `atomic` tells other processes about itself, from time to time: after each checkpoint;
/// on page-cache, where there are none, after 64 records of a thread or, later, after 65,536.
struct writer_information {
    std::uint64_t process = 0;
    bool alive = false;  ///< there is such a process, as far as this one can see
    protocol_counters counters;
};

/// All zero where the heap never had any.
struct lane_information {
    bool last_writer_atomic = false;  ///< the last writer worked in durability `atomic`, and not in `commit`
    /// That writer has not closed the heap: it crashed, or still has it open. A heap opened read-only has replayed the
    /// records in memory; the next writer will on media.
    bool pending = false;
    std::uint64_t incarnations = 0;  ///< how often the heap was opened for writing in durability `atomic`
    std::uint64_t lanes = 0;         ///< in the file: as many as threads had one at the same time
    std::uint64_t slots = 0;         ///< records of a lane
    /// Which records count after a crash: "clock", those newer than the last checkpoint (domains that flush); "in
    /// flight", those of calls that had not returned (page-cache). "" where there are no lanes.
    std::string order;
    /// Of the last checkpoint, before this open: a reading of the heap's clock, which is no time of day.
    std::uint64_t checkpoint_clock = 0;
    /// Of the writer that has not closed the heap; nothing where there is none, or it was just then writing this.
    std::optional<writer_information> writer;
};

}  // namespace holdfast
