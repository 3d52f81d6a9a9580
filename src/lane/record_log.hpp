// The log of the domain `disk` (docs/atomic-protocol.md, "On disks"): the records of all lanes in the order in which
// they became durable. The first thread that finds nobody writing leads: it gathers the records of all lanes and writes
// them, while the others wait (group commit, known from databases).
//
// Threads that were served together come back within a short time. So a leader waits for as many as last time, at most
// half the time of a write: one write for all is better than two.
//
// After a failed write nothing more becomes durable: a later success does not prove that earlier records are on media.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

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
    std::uint64_t slots = 0;          ///< of one lane, a piece of the log
    std::uint64_t lanes = log_lanes;  ///< of the log
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

    /// So that later writes change no metadata of the file system.
    base::result<void> prepare();

    /// LANE-40. False: ask again after a checkpoint.
    [[nodiscard]] bool claim(std::uint64_t records) noexcept;
    /// Room that was claimed and is not needed.
    void give_back(std::uint64_t records) noexcept { claimed_.fetch_sub(records, std::memory_order_relaxed); }
    /// What a lane should claim at once.
    [[nodiscard]] std::uint64_t portion() const noexcept { return portion_; }

    /// False: the lane's records are not durable, and never will be.
    [[nodiscard]] bool make_durable(lane& own) noexcept;

    /// Records up to this time are void on media (LANE-39).
    void release(std::uint64_t time) noexcept;

    /// Whether a write has failed, or fail() was called.
    [[nodiscard]] bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
    void fail(base::failure why) noexcept;
    /// Meaningful once has_failed().
    [[nodiscard]] const base::failure& failure() const noexcept { return failure_; }
    [[nodiscard]] std::uint64_t writes() const noexcept { return writes_.load(std::memory_order_relaxed); }

private:
    void lead() noexcept;
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
    std::byte* staging_;                                    ///< from the block of written_ on; the leader's
    std::unique_ptr<std::atomic<std::uint64_t>[]> newest_;  ///< of each block: the time of its newest record
    std::array<std::uint64_t, maximum_lanes> gathered_{};   ///< by lane; the leader's
    std::uint64_t written_ = 0;                             ///< durable records; the leader's
    std::uint64_t staged_ = 0;                              ///< records put since; the leader's
    std::uint64_t busy_lanes_ = 0;                          ///< served by the last turn, or waiting at its end
    std::chrono::nanoseconds last_turn_{0};                 ///< how long it took
    std::atomic<std::uint64_t> end_{0};                     ///< records put in all
    std::uint64_t first_block_ = 0;                         ///< the oldest block in use; release()'s
    std::atomic<std::uint64_t> released_{0};                ///< records in blocks that are free again
    std::atomic<std::uint64_t> claimed_{0};
    std::atomic<bool> leading_{false};
    std::atomic<std::uint32_t> round_{0};  ///< changes at each turn; followers wait for that
    std::atomic<std::uint64_t> writes_{0};
    std::atomic<bool> failed_{false};
    std::atomic<bool> failing_{false};
    base::failure failure_;
};

}  // namespace holdfast::lane
