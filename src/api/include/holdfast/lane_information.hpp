// What media say about the lanes, the redo rings of durability `atomic` (manager::lanes()).
#pragma once

#include <cstdint>
#include <string>

namespace holdfast {

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
};

}  // namespace holdfast
