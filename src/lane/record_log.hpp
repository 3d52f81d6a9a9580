// The log of the domain `disk`: the records of all lanes in the order in which they became durable.
//
// There each lane's ring lies in DRAM, and the slots of the first lanes in the file `lanes` are one log. A record is
// durable when the write that holds it has returned (segment::log_writer). One write holds the records of all threads
// that wait (group commit): the first thread that finds nobody writing leads, gathers the records of all lanes, and
// writes them in whole blocks behind the earlier ones; the others wait for it.
//
// Threads that were served together come back within a short time. So a leader waits for as many as there were the last
// time, at most for half the time of a write: one write for all of them is better than one for the first and one for
// the rest.
//
// The last block is written again until it is full. What was durable in it stays the same, byte for byte, so a write
// that is cut off takes no record away.
//
// LANE-39 and LANE-40 (docs/atomic-protocol.md) say when a block may be used again, and when a call gets its room.
//
// After a failed write nothing more becomes durable: no later success proves that the earlier records are on media.
//
// Source: the domain `disk` is docs/atomic-protocol.md, "On disks"; group commit is from databases.
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

/// The lanes of an open heap, as lane_pool has them.
struct lanes_view {
    const std::array<std::unique_ptr<lane>, maximum_lanes>& lanes;
    const std::atomic<std::uint64_t>& count;
};

struct log_shape {
    std::uint64_t slots = 0;          ///< of a lane: its slots are a piece of the log
    std::uint64_t lanes = log_lanes;  ///< whose slots are the log
    std::uint64_t block_records = records_per_block;

    [[nodiscard]] constexpr std::uint64_t records() const noexcept { return slots * lanes; }
    /// Where record number `index` of the log lies in the file.
    [[nodiscard]] constexpr std::uint64_t offset_of(std::uint64_t index) const noexcept {
        return lanes_at + index / slots * lane_size(slots) + lane_header_size + index % slots * sizeof(record_on_media);
    }
};

/// Thread safety: all members may be called by all threads, except release(), which one thread calls at a time.
class record_log {
public:
    /// `staging`: staging_bytes(shape) of memory.
    record_log(std::unique_ptr<segment::log_writer> media, const log_shape& shape, const lanes_view& all,
               base::sparse_memory staging);
    [[nodiscard]] static std::uint64_t staging_bytes(const log_shape& shape) noexcept;
    record_log(const record_log&) = delete;
    record_log& operator=(const record_log&) = delete;
    ~record_log() = default;

    /// Writes blocks that were never written, so that later writes change no metadata of the file system.
    base::result<void> prepare();

    /// Room for so many records (LANE-40). False: ask again after a checkpoint.
    [[nodiscard]] bool claim(std::uint64_t records) noexcept;
    /// Room that was claimed and will not be used.
    void give_back(std::uint64_t records) noexcept { claimed_.fetch_sub(records, std::memory_order_relaxed); }
    /// How many records a lane should claim at once.
    [[nodiscard]] std::uint64_t portion() const noexcept { return portion_; }

    /// Returns when all records that the lane has appended are durable. False: they are not, and never will be.
    [[nodiscard]] bool make_durable(lane& own) noexcept;

    /// Records up to this time are void on media (LANE-39).
    void release(std::uint64_t time) noexcept;

    /// Once a write has failed, or fail() was called, nothing more becomes durable.
    [[nodiscard]] bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
    void fail(base::failure why) noexcept;
    /// The first failure; meaningful once has_failed().
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
    std::uint64_t staged_most_;                             ///< records that staging_ has room for
    base::sparse_memory staging_memory_;                    ///< at a multiple of a page, as direct writes need it
    std::byte* staging_;                                    ///< from the block of written_ on; the leader's
    std::unique_ptr<std::atomic<std::uint64_t>[]> newest_;  ///< of each block: the newest time of its records
    std::array<std::uint64_t, maximum_lanes> gathered_{};   ///< by lane; the leader's
    std::uint64_t written_ = 0;                             ///< records whose write has returned; the leader's
    std::uint64_t staged_ = 0;                              ///< records put since; the leader's
    std::uint64_t busy_lanes_ = 0;            ///< that waited at the end of the last turn, or were served by it
    std::chrono::nanoseconds last_turn_{0};   ///< how long it took
    std::atomic<std::uint64_t> end_{0};       ///< records put in all
    std::uint64_t first_block_ = 0;           ///< the oldest block in use; release()'s
    std::atomic<std::uint64_t> released_{0};  ///< records in blocks that were used and are free again
    std::atomic<std::uint64_t> claimed_{0};
    std::atomic<bool> leading_{false};
    std::atomic<std::uint32_t> round_{0};  ///< waiting threads wait for it to change
    std::atomic<std::uint64_t> writes_{0};
    std::atomic<bool> failed_{false};
    std::atomic<bool> failing_{false};
    base::failure failure_;
};

}  // namespace holdfast::lane
