// One lane: a ring of durable records, and for each slot a descriptor in DRAM. Independent of the domain; lane_set.hpp
// writes records and takes checkpoints.
//
// A lane belongs to one thread at a time; lane 0 belongs to the thread that holds its lock. The owner appends. Any
// thread may take a checkpoint, which reads the descriptors of all lanes and frees slots.
//
//   LANE-5 (docs/atomic-protocol.md): while a call is in flight, `announced` is not 0 and below the time of the call.
//   LANE-20: sequence - voided <= slots: a slot is written again only after a checkpoint has passed its record.
//   LANE-21: `completed` counts records whose stores are visible to a thread that reads it with acquire.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/units.hpp"
#include "lane/lane_format.hpp"

namespace holdfast::lane {

/// Words that the call of a record changes: a checkpoint writes back their lines before the record is void. The address
/// of a bitmap word that is stored at the checkpoint, from block states in DRAM, has 1 added (follows_states()).
using touched_lines = std::array<const void*, 3>;

[[nodiscard]] inline const void* follows_states(const std::uint64_t* word) noexcept {
    return reinterpret_cast<const std::byte*>(word) + 1;
}
[[nodiscard]] inline bool does_follow_states(const void* line) noexcept {
    return (reinterpret_cast<std::uintptr_t>(line) & 1U) != 0;
}

/// The block states in DRAM of allocated small blocks, from which checkpoints update the bitmaps on media. Implemented
/// by heap/.
class block_states {
public:
    block_states() = default;
    block_states(const block_states&) = delete;
    block_states& operator=(const block_states&) = delete;
    virtual ~block_states() = default;

    /// The present content for the words of this line of bitmaps. Thread-safe. It may include block states of records
    /// that are not void yet: a state changes after the fence of its record, and a pending record decides its bit in
    /// any case.
    virtual void bits_of_line(const std::uint64_t* line, std::span<std::uint64_t, 8> bits) const noexcept = 0;
    /// Sets the state of a small block. False where the block has no state.
    [[nodiscard]] virtual bool set_state(std::uint64_t offset, block_word block, bool allocated) noexcept = 0;
};

struct slot_descriptor {
    std::uint64_t time = 0;
    touched_lines lines{};
};

struct alignas(base::cache_line_size) lane {
    // Constant from the creation on, or used by the owner alone.
    record_on_media* slots = nullptr;
    slot_descriptor* descriptors = nullptr;
    lane_header_on_media* header = nullptr;
    std::uint64_t slot_mask = 0;
    std::uint64_t seed = 0;
    std::uint64_t last_time = 0;
    std::uint64_t free_until = 0;  ///< slots for records up to this sequence are known to be free
    std::uint64_t index = 0;
    std::uint64_t log_claimed = 0;  ///< the log has room for records up to this sequence (LANE-37)
    // Written by the owner, read by others.
    alignas(base::cache_line_size) std::atomic<std::uint64_t> announced{0};  ///< 0: no call is in flight
    std::atomic<std::uint64_t> sequence{0};                                  ///< records appended
    std::atomic<std::uint64_t> completed{0};                                 ///< records whose stores are visible
    std::atomic<std::uint64_t> fences{0};
    std::atomic<std::uint64_t> flushed_lines{0};  ///< by calls, not by checkpoints
    // Written by checkpoints.
    alignas(base::cache_line_size) std::atomic<std::uint64_t> voided{0};  ///< records whose slots may be used again
    std::atomic<std::uint64_t> logged{0};  ///< order `logged`: records that are durable. Written by the log's leader.
    std::uint64_t first_sequence = 0;      ///< of the last record before this opening
    std::unique_ptr<slot_descriptor[]> owned_descriptors;
    std::unique_ptr<record_on_media[]> owned_slots;  ///< order `logged`: the ring
    lane* next_free = nullptr;
};

/// Counters of the protocol since the heap was opened.
struct lane_statistics {
    std::uint64_t records = 0;        ///< durable records
    std::uint64_t fences = 0;         ///< by calls and checkpoints
    std::uint64_t flushed_lines = 0;  ///< lines written back
    std::uint64_t reflushes = 0;      ///< lines written back again after fewer than 4 others (PMAlloc 3.2)
    std::uint64_t media_bytes = 0;    ///< records, lines and times of checkpoints
    std::uint64_t checkpoints = 0;
    std::uint64_t checkpoint_ns = 0;          ///< sum over all checkpoints
    std::uint64_t longest_checkpoint_ns = 0;  ///< the longest that one call worked on one
    std::uint64_t waits = 0;                  ///< how often a call waited for a full ring
    std::uint64_t lanes = 0;
};

}  // namespace holdfast::lane
