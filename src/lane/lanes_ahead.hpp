// A checkpoint of one thread that writes back the lines of all lanes is as fast as that thread, whatever the others do.
// So where several threads have lanes, each writes back the lines of its own records, and a checkpoint mostly only
// stores the time up to which all have done so.
//
// A lane goes by windows: when a quarter of its ring is not written back yet, the owner writes back all that is
// complete then, some records at each step. The fence of a later record waits for these lines, so that this costs no
// fence of its own. Then the lane shows how far it is. A checkpoint writes back itself what lanes that lag have not.
//
//   LANE-43: when a lane shows a number of its records as written back, the lines that they touched were flushed after
//            their stores, and then fenced by the same thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/function_ref.hpp"
#include "lane/clock.hpp"
#include "lane/lane.hpp"
#include "lane/record_log.hpp"

namespace holdfast::lane {

/// Records of the lane whose lines are durable.
[[nodiscard]] std::uint64_t written_back(const lane& of) noexcept;
/// The last of the records (first, end] that is not newer, or `first`.
[[nodiscard]] std::uint64_t last_record_at(const lane& of, std::uint64_t first, std::uint64_t end,
                                           std::uint64_t time) noexcept;
/// The window ends with its thread, whose fence alone waits for its lines. The thread may have ended within a step.
void close_window(const lane& of) noexcept HF_NO_THREAD_SAFETY_ANALYSIS;

class lanes_ahead {
public:
    /// `held`: the lock of the line's words while it is held. False: another thread has it.
    using write_back_line = base::function_ref<bool(const void* line, base::mutex** held)>;

    lanes_ahead(const lanes_view& all, std::uint64_t ring_slots, std::uint64_t lanes_for_ahead,
                const span_counter& spans) noexcept
        : all_(all), ring_slots_(ring_slots), lanes_for_ahead_(lanes_for_ahead), spans_(spans) {}

    [[nodiscard]] bool works(const lane& own) const noexcept {
        return own.ahead != nullptr && all_.count.load(std::memory_order_relaxed) >= lanes_for_ahead_;
    }
    /// Of the owner, outside of a call: takes a step, if one is due. False: checkpoints write all lines back.
    [[nodiscard]] bool work(lane& own, write_back_line write_back) const noexcept;
    /// The number of records at which the next step is due.
    [[nodiscard]] std::uint64_t next_work(const lane& own) const noexcept;
    /// A call with more records takes a step by itself.
    [[nodiscard]] std::uint64_t records_between_steps() const noexcept {
        return std::max<std::uint64_t>(ring_slots_ / 256, 1);
    }
    /// The pending records at which a checkpoint begins. That of a lane that works ahead is where a window has just
    /// been written back.
    [[nodiscard]] std::uint64_t enough_for_checkpoint(bool is_ahead) const noexcept {
        return ring_slots_ / 2 + (is_ahead ? ring_slots_ / 8 + 2 * records_between_steps() : 0);
    }
    /// The latest time up to which lanes have written back; at least that of an eighth of the owner's ring: what others
    /// have not up to there, the checkpoint has to. `reached`: of each lane, the complete records.
    [[nodiscard]] std::uint64_t time_written_back(
        const lane& owner, std::uint64_t lanes, const std::array<std::uint64_t, maximum_lanes>& reached) const noexcept;

    /// Of each lane the step that runs, or 0. One that began before records were obsolete may still write their lines
    /// back; a later one does not.
    using steps = std::array<std::uint64_t, maximum_lanes>;
    [[nodiscard]] steps running() const noexcept;
    [[nodiscard]] bool have_ended(const steps& some) const noexcept;

private:
    void write_back_window(lane& own, write_back_line write_back) const noexcept;

    lanes_view all_;
    std::uint64_t ring_slots_;
    std::uint64_t lanes_for_ahead_;
    const span_counter& spans_;
};

}  // namespace holdfast::lane
