// A lane belongs to one thread at a time, which appends; lane 0 belongs to the holder of its lock. Checkpoints of any
// thread free slots.
//
//   LANE-20: sequence - obsolete <= slots: a slot is written again only after a checkpoint has passed its record.
//   LANE-21: `completed` counts records whose stores are visible to a thread that reads it with acquire.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/atomic.hpp"
#include "base/function_ref.hpp"
#include "base/mutex.hpp"
#include "base/units.hpp"
#include "lane/lane_format.hpp"
#include "lane/line_set.hpp"

namespace holdfast::lane {

/// Words whose lines a checkpoint writes back before the record is obsolete. An address plus 1: the checkpoint itself
/// stores the bitmap word, from block states; plus 2: see follows_shadows().
using touched_lines = std::array<const void*, 3>;

[[nodiscard]] inline const void* follows_states(const std::uint64_t* word) noexcept {
    return reinterpret_cast<const std::byte*>(word) + 1;
}
/// A line of page entries in a heap of several nodes: the checkpoint itself withdraws those of blocks that a thread of
/// another node has freed.
[[nodiscard]] inline const void* follows_shadows(const std::uint64_t* word) noexcept {
    return reinterpret_cast<const std::byte*>(word) + 2;
}
[[nodiscard]] inline bool does_follow_states(const void* line) noexcept {
    return (reinterpret_cast<std::uintptr_t>(line) & 3U) != 0;
}
[[nodiscard]] inline bool does_follow_shadows(const void* line) noexcept {
    return (reinterpret_cast<std::uintptr_t>(line) & 2U) != 0;
}

/// States of small blocks, from which checkpoints update the bitmaps.
class block_states {
public:
    block_states() = default;
    block_states(const block_states&) = delete;
    block_states& operator=(const block_states&) = delete;
    virtual ~block_states() = default;

    /// What a line of bitmaps should hold. Thread-safe. May include states of pending records: a state changes after
    /// the fence of its record, which decides the bit in any case.
    virtual void bits_of_line(const std::uint64_t* line, std::span<std::uint64_t, 8> bits) const noexcept = 0;
    /// Withdraws page entries of the line by `replace`, which gets word, found and wanted. Thread-safe; states as
    /// above.
    virtual void withdraw_line(
        const std::uint64_t* line,
        base::function_ref<void(std::uint64_t&, std::uint64_t, std::uint64_t)> replace) const noexcept = 0;
    /// False where the block has no state.
    [[nodiscard]] virtual bool set_state(std::uint64_t offset, block_word block, bool allocated) noexcept = 0;
};

struct slot_descriptor {
    std::uint64_t time = 0;
    touched_lines lines{};
};

/// What the owner of a lane writes back before a checkpoint comes to it (lanes_ahead.hpp): records by windows, each
/// line once in a window.
struct write_back_ahead {
    explicit write_back_ahead(unsigned line_bits) : lines(line_bits) {}

    std::uint64_t next = 0;    ///< records up to it are written back
    std::uint64_t until = 0;   ///< where the window ends; as `durable`: there is none
    std::uint64_t time = 0;    ///< of the last call when the window was opened
    std::uint64_t fences = 0;  ///< of the lane, when the window's last line was written back
    line_set lines;
    std::array<std::uint64_t, 4> last_lines{};
    std::uint64_t flushes = 0;
    base::mutex* held = nullptr;  ///< of words that follow states
    // Read by other threads; all grow.
    alignas(base::cache_line_size) base::atomic<std::uint64_t> durable{0};  ///< lines of records up to it are durable
    base::atomic<std::uint64_t> durable_time{0};                            ///< about that of the last of them
    base::atomic<std::uint64_t> steps{0};                                   ///< begun and ended: odd during one
    std::atomic<std::uint64_t> reflushes{0};
    std::atomic<std::uint64_t> ticks{0};
    std::atomic<std::uint64_t> longest_ticks{0};
};

/// 128: processors fetch lines in pairs.
struct alignas(2 * base::cache_line_size) lane {
    record_on_media* slots = nullptr;
    slot_descriptor* descriptors = nullptr;
    lane_header_on_media* header = nullptr;
    std::uint64_t slot_mask = 0;
    std::uint64_t seed = 0;
    std::uint64_t last_time = 0;
    std::uint64_t free_until = 0;
    std::uint64_t index = 0;
    std::uint64_t log_claimed = 0;  ///< records with room in the log (LANE-40)
    // Written by the owner.
    alignas(base::cache_line_size) base::atomic<std::uint64_t> announced{0};  ///< 0: no call is in flight
    base::atomic<std::uint64_t> sequence{0};
    base::atomic<std::uint64_t> completed{0};
    std::atomic<std::uint64_t> fences{0};
    std::atomic<std::uint64_t> flushed_lines{0};
    // Written by checkpoints.
    alignas(base::cache_line_size) base::atomic<std::uint64_t> obsolete{0};
    base::atomic<std::uint64_t> logged{0};  ///< order `logged`: durable records; the log's leader writes it
    std::uint64_t first_sequence = 0;
    std::unique_ptr<slot_descriptor[]> owned_descriptors;
    std::unique_ptr<record_on_media[]> owned_slots;  ///< order `logged`: the ring
    std::unique_ptr<write_back_ahead> ahead;         ///< null: checkpoints write all lines back
    lane* next_free = nullptr;
};

/// Since the heap was opened.
struct lane_statistics {
    std::uint64_t records = 0;
    std::uint64_t fences = 0;
    std::uint64_t flushed_lines = 0;
    std::uint64_t reflushes = 0;    ///< lines written back again after fewer than 4 others (PMAlloc 3.2)
    std::uint64_t media_bytes = 0;  ///< records, lines and times of checkpoints
    std::uint64_t checkpoints = 0;
    std::uint64_t checkpoint_ns = 0;
    std::uint64_t longest_checkpoint_ns = 0;  ///< of one call's work on a checkpoint
    std::uint64_t waits = 0;                  ///< of calls for a full ring
    std::uint64_t lanes = 0;
    std::uint64_t helped = 0;  ///< records whose lines a checkpoint wrote back, not ahead of it their owner
};

}  // namespace holdfast::lane
