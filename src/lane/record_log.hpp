// The log of the domain `disk` (docs/atomic-protocol.md, "On disks"). The first thread that finds nobody writing leads:
// it writes the records of all lanes, while the others wait (group commit). Threads that were served together come back
// soon, so a leader waits for as many as last time, at most half the time of a write. After a failed write nothing more
// becomes durable.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/atomic.hpp"
#include "base/failure.hpp"
#include "base/result.hpp"
#include "base/sparse_table.hpp"
#include "lane/lane.hpp"
#include "lane/lane_format.hpp"
#include "segment/space.hpp"

namespace holdfast::lane {

struct lanes_view {
    const std::array<std::unique_ptr<lane>, maximum_lanes>& lanes;
    const std::atomic<std::uint64_t>& count;
};

struct log_shape {
    std::uint64_t slots = 0;  ///< of one lane
    std::uint64_t lanes = log_lanes;
    std::uint64_t block_records = records_per_block;

    [[nodiscard]] constexpr std::uint64_t records() const noexcept { return slots * lanes; }
    [[nodiscard]] constexpr std::uint64_t offset_of(std::uint64_t index) const noexcept {
        return lanes_at + index / slots * lane_size(slots) + lane_header_size + index % slots * sizeof(record_on_media);
    }
};

/// Thread-safe, except release(), which one thread calls at a time.
class record_log {
public:
    record_log(std::unique_ptr<segment::log_writer> media, const log_shape& shape, const lanes_view& all,
               base::sparse_memory staging);
    [[nodiscard]] static std::uint64_t staging_bytes(const log_shape& shape) noexcept;
    record_log(const record_log&) = delete;
    record_log& operator=(const record_log&) = delete;
    ~record_log() = default;

    /// Later writes change no metadata of the file system.
    base::result<void> prepare();

    /// LANE-40. False: ask again after a checkpoint.
    [[nodiscard]] bool claim(std::uint64_t records) noexcept;
    void give_back(std::uint64_t records) noexcept { claimed_.fetch_sub(records, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t portion() const noexcept { return portion_; }

    /// False: the records are not durable, and never will be.
    [[nodiscard]] bool make_durable(lane& own) noexcept;

    /// Records up to this time are void on media (LANE-39).
    void release(std::uint64_t time) noexcept;

    [[nodiscard]] bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
    void fail(base::failure why) noexcept;
    /// Meaningful once has_failed().
    [[nodiscard]] const base::failure& failure() const noexcept { return failure_; }
    [[nodiscard]] std::uint64_t writes() const noexcept { return writes_.load(std::memory_order_relaxed); }

private:
    void lead() noexcept;
    void end_turn() noexcept;
    void wake_waiting() noexcept;
    void wait_for_served() const noexcept;
    [[nodiscard]] std::uint64_t waiting_lanes() const noexcept;
    [[nodiscard]] bool gather() noexcept;
    void put(const record_on_media& record) noexcept;
    [[nodiscard]] bool write_out() noexcept;

    log_shape shape_;
    lanes_view all_;
    std::unique_ptr<segment::log_writer> media_;
    std::uint64_t blocks_;
    std::uint64_t portion_;
    std::uint64_t staged_most_;                             ///< records that fit staging_
    base::sparse_memory staging_memory_;                    ///< page-aligned, for direct writes
    std::byte* staging_;                                    ///< from the block of written_ on
    std::unique_ptr<std::atomic<std::uint64_t>[]> newest_;  ///< time of each block's newest record
    std::array<std::uint64_t, maximum_lanes> gathered_{};
    std::uint64_t written_ = 0;
    std::uint64_t staged_ = 0;
    std::uint64_t busy_lanes_ = 0;  ///< served by the last turn, or waiting at its end
    std::chrono::nanoseconds last_turn_{0};
    base::atomic<std::uint64_t> end_{0};
    std::uint64_t first_block_ = 0;            ///< the oldest block in use; release()'s
    base::atomic<std::uint64_t> released_{0};  ///< records in blocks that are free again
    base::atomic<std::uint64_t> claimed_{0};
    base::atomic<bool> leading_{false};
    base::atomic<std::uint32_t> round_{0};
    std::atomic<std::uint64_t> writes_{0};
    base::atomic<bool> failed_{false};
    base::atomic<bool> failing_{false};
    base::failure failure_;
};

}  // namespace holdfast::lane
