// The log of the domain `disk` (docs/atomic-protocol.md, "On disks"), on log/log.hpp. The thread that leads gathers the
// records of all lanes into one record of the log, while the others wait. After a failed write nothing more becomes
// durable.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/atomic.hpp"
#include "base/mutex.hpp"
#include "base/result.hpp"
#include "lane/lane.hpp"
#include "lane/lane_format.hpp"
#include "log/log.hpp"
#include "segment/format/space.hpp"

namespace holdfast::lane {

struct lanes_view {
    const std::array<std::unique_ptr<lane>, maximum_lanes>& lanes;
    const std::atomic<std::uint64_t>& count;
};

/// Where records lie, and of which opening of the heap.
struct log_source {
    segment::log_home home;
    std::uint64_t heap_key = 0;
    std::uint64_t incarnation = 0;
};

enum class log_access : std::uint8_t {
    look,     ///< nothing is written
    recover,  ///< what is read is durable on return (LOG-7, LOG-8)
};

/// The records behind the mark that are newer than the time. `missing` or `corrupt` where the log is not there
/// (LANE-25), or holds something else. May throw std::bad_alloc.
[[nodiscard]] base::result<std::vector<record_on_media>> read_log(const log_source& source,
                                                                  const checkpoint_on_media& last, log_access access);

/// Thread-safe, except begin_at() and release(), which one thread calls at a time.
class record_log {
public:
    /// An empty log that begins at this mark, of sequence 0, which no log in these files had; no record in them counts
    /// any more. `no_space` where there is too little. It holds at most `most` records at a time.
    [[nodiscard]] static base::result<std::unique_ptr<record_log>> create(const log_source& source,
                                                                          const log::mark& begin, const lanes_view& all,
                                                                          std::uint64_t most);
    record_log(const record_log&) = delete;
    record_log& operator=(const record_log&) = delete;
    ~record_log() = default;

    /// LANE-40. False: ask again after a checkpoint.
    [[nodiscard]] bool claim(std::uint64_t records) noexcept;
    void return_room(std::uint64_t records) noexcept { claimed_.fetch_sub(records, std::memory_order_relaxed); }
    /// What a lane claims at once.
    [[nodiscard]] std::uint64_t portion() const noexcept { return portion_; }

    /// False: the records are not durable, and never will be.
    [[nodiscard]] bool make_durable(lane& own) noexcept;

    /// No record before this mark is newer than `time` (LANE-39).
    [[nodiscard]] log::mark begin_at(std::uint64_t time) noexcept;
    /// The last answer of begin_at() is durable as the beginning.
    void release() noexcept;

    [[nodiscard]] bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
    void fail(base::failure why) noexcept;
    /// Meaningful once has_failed().
    [[nodiscard]] const base::failure& failure() const noexcept { return failure_; }

private:
    /// A place where the log may begin.
    struct place {
        log::mark end;
        std::uint64_t records = 0;  ///< so far
        std::uint64_t newest = 0;   ///< time, since the place before
    };

    record_log(std::unique_ptr<log::log> log, const log::mark& begin, const lanes_view& all, std::uint64_t capacity);
    [[nodiscard]] bool lead();
    [[nodiscard]] bool gather(const lane& each, std::uint64_t& gathered, std::uint64_t end);
    [[nodiscard]] bool append();
    [[nodiscard]] bool write();
    void note_place();

    std::unique_ptr<log::log> log_;
    lanes_view all_;
    std::uint64_t capacity_;  ///< in records
    std::uint64_t portion_;
    // The leader's.
    std::array<std::uint64_t, maximum_lanes> gathered_{};
    std::vector<std::span<const std::byte>> parts_;  ///< of the next record of the log
    std::uint64_t in_parts_ = 0;                     ///< records
    std::uint64_t unwritten_ = 0;                    ///< bytes
    place last_;
    std::uint64_t noted_ = 0;  ///< records, when the last place was made
    base::mutex places_mutex_;
    std::vector<place> places_ HF_GUARDED_BY(places_mutex_);  ///< behind begin_
    place begin_;
    base::atomic<std::uint64_t> released_{0};
    base::atomic<std::uint64_t> claimed_{0};
    log::group_commit<> group_{0};
    base::atomic<bool> failed_{false};
    base::atomic<bool> failing_{false};
    base::failure failure_;
};

}  // namespace holdfast::lane
