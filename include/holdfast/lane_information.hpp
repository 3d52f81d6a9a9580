// What the files say about the lanes, the redo rings of durability `atomic`, and what these cost.
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
    std::uint64_t lines_flushed = 0;  ///< of 64 bytes
    std::uint64_t reflushes = 0;      ///< lines flushed again after fewer than 4 others
    std::uint64_t media_bytes = 0;    ///< records, lines, times of checkpoints
    std::uint64_t checkpoints = 0;
    std::uint64_t checkpoint_ns = 0;
    std::uint64_t longest_checkpoint_ns = 0;  ///< that one call worked on one
    std::uint64_t waits = 0;                  ///< calls that waited for a full ring
    std::uint64_t lanes = 0;
};

/// From a writer in durability `atomic`, updated after each checkpoint; in the domain page-cache, which has none, after
/// every 64 records of a thread at first, and every 65,536 later.
struct writer_information {
    std::uint64_t process = 0;  ///< as its own namespace of processes numbers it
    bool alive = false;         ///< it has the heap open, wherever it runs on this machine
    protocol_counters counters;
};

/// All zero where the heap was never open in durability `atomic`.
struct lane_information {
    bool last_writer_atomic = false;  ///< in durability `atomic` or `collect`
    /// Of the last writer: "commit", "atomic" or "collect". A closed heap that was open in `atomic` and later in
    /// `collect` says "atomic".
    std::string last_durability = "commit";
    /// The last writer crashed, or still has the heap open. A read-only open has replayed the records in memory; the
    /// next writer replays them on media.
    bool pending = false;
    std::uint64_t incarnations = 0;  ///< opens for writing in durability `atomic`
    std::uint64_t lanes = 0;         ///< the most threads that had one at once
    std::uint64_t slots = 0;         ///< records of a lane
    /// Which records count after a crash. "clock": those newer than the last checkpoint. "in flight" (page-cache):
    /// those of calls that had not returned. "": there are no lanes.
    std::string order;
    /// The clock of the last checkpoint before this open; it is no time of day.
    std::uint64_t checkpoint_clock = 0;
    /// The writer that has not closed the heap; empty where there is none, or while this is written.
    std::optional<writer_information> writer;
};

}  // namespace holdfast
