// One lane: a ring of durable records and its twin in DRAM. Domain-independent; lane_set.hpp writes and checkpoints.
//
// A lane belongs to one thread at a time (lane 0 to whoever holds its lock). The owner appends; any thread may take a
// checkpoint, which reads the twins of all lanes and says which slots may be used again.
//
//   LANE-20: sequence - voided <= slots: a slot is written again only after a checkpoint has passed its record.
// and, of docs/atomic-protocol.md, LANE-5: while a call is in flight, `announced` is below its time, and not 0.
//   LANE-21: `completed` counts records whose stores are visible to whoever reads it with acquire.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/units.hpp"
#include "lane/lane_format.hpp"

namespace holdfast::lane {

/// What a record changes besides itself: the words whose lines a checkpoint must write back before the record is void.
/// A word of a live bitmap that follows marks in DRAM has 1 added to its address (follows_marks()).
using touched_lines = std::array<const void*, 3>;

[[nodiscard]] inline const void* follows_marks(const std::uint64_t* word) noexcept {
    return reinterpret_cast<const std::byte*>(word) + 1;
}
[[nodiscard]] inline bool does_follow_marks(const void* line) noexcept {
    return (reinterpret_cast<std::uintptr_t>(line) & 1U) != 0;
}

/// Where blocks are marked allocated in DRAM, and the bitmaps on media follow. Implemented by heap/.
class block_marks {
public:
    block_marks() = default;
    block_marks(const block_marks&) = delete;
    block_marks& operator=(const block_marks&) = delete;
    virtual ~block_marks() = default;

    /// What the words of this line of bitmaps must hold now. Any thread, at any time. It may be ahead of what is void:
    /// a mark changes after the fence of its record, and that record, still pending, decides the bit anyway.
    virtual void bits_of_line(const std::uint64_t* line, std::span<std::uint64_t, 8> bits) const noexcept = 0;
    /// Marks a small block. False where it has no mark.
    [[nodiscard]] virtual bool mark(std::uint64_t offset, block_word block, bool allocated) noexcept = 0;
};

/// The twin of a slot.
struct slot_twin {
    std::uint64_t time = 0;
    touched_lines lines{};
};

struct alignas(base::cache_line_size) lane {
    // Of the owner.
    record_on_media* slots = nullptr;
    slot_twin* twins = nullptr;
    lane_header_on_media* header = nullptr;
    std::uint64_t slot_mask = 0;
    std::uint64_t seed = 0;
    std::uint64_t last_time = 0;
    std::uint64_t free_until = 0;  ///< records up to this sequence need no look at `voided`
    std::uint64_t index = 0;
    // Of the owner, read by others.
    alignas(base::cache_line_size) std::atomic<std::uint64_t> announced{0};  ///< 0: no call is in flight
    std::atomic<std::uint64_t> sequence{0};                                  ///< records appended
    std::atomic<std::uint64_t> completed{0};                                 ///< records whose stores are visible
    std::atomic<std::uint64_t> fences{0};
    std::atomic<std::uint64_t> flushed_lines{0};  ///< by calls, not by checkpoints
    // Of whoever takes a checkpoint.
    alignas(base::cache_line_size) std::atomic<std::uint64_t> voided{0};  ///< records whose slots may be used again
    std::uint64_t first_sequence = 0;                                     ///< records of earlier openings
    std::unique_ptr<slot_twin[]> owned_twins;
    lane* next_free = nullptr;
};

/// Counters of the protocol since the heap was opened.
struct lane_statistics {
    std::uint64_t records = 0;        ///< durable records
    std::uint64_t fences = 0;         ///< by calls and checkpoints
    std::uint64_t flushed_lines = 0;  ///< lines written back
    std::uint64_t reflushes = 0;      ///< of these, again after fewer than 4 other lines (PMAlloc 3.2)
    std::uint64_t media_bytes = 0;    ///< records, lines and times of checkpoints
    std::uint64_t checkpoints = 0;
    std::uint64_t checkpoint_ns = 0;  ///< all of them together
    std::uint64_t longest_checkpoint_ns = 0;
    std::uint64_t waits = 0;  ///< times that a call waited for a full ring
    std::uint64_t lanes = 0;
};

}  // namespace holdfast::lane
