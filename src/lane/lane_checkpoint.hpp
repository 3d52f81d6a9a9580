// A checkpoint: it fixes a time T', makes the lines durable that records up to T' touched, seals T' in the head, and
// then no such record counts any more (docs/atomic-protocol.md, "A checkpoint"). It goes in steps, so that no call
// waits long: begin(), then advance() until the running checkpoint has no owner.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>

#include "base/mutex.hpp"
#include "base/units.hpp"
#include "lane/announcement_barrier.hpp"
#include "lane/clock.hpp"
#include "lane/head.hpp"
#include "lane/lane.hpp"
#include "lane/lane_options.hpp"
#include "lane/lanes_ahead.hpp"
#include "lane/line_set.hpp"
#include "lane/record_log.hpp"
#include "persist/domain.hpp"
#include "segment/format/space.hpp"

namespace holdfast::lane {

/// Between the reading of T' and its store. A fence waits only for its own thread's lines, so the calls of one owner
/// share the work.
struct running_checkpoint {
    const lane* owner = nullptr;  ///< null: none runs
    std::uint64_t time = 0;       ///< T'
    std::uint64_t lanes = 0;      ///< with records up to T'
    std::uint64_t at = 0;         ///< lanes before this one are written back
    std::uint64_t next = 0;       ///< of lane `at`, written back
    std::uint64_t passed = 0;
    std::uint64_t pending = 0;  ///< at its beginning
    std::uint64_t step = 0;     ///< records for each call
};

/// How far checkpoints are: the time of the last one, the one that runs, and what all have done. One thread at a time
/// works on a checkpoint; others read the time and the counters.
class checkpoint_progress {
public:
    struct counters {
        std::uint64_t fences = 0;
        std::uint64_t checkpoints = 0;
        std::uint64_t flushed_lines = 0;
        std::uint64_t reflushes = 0;
        std::uint64_t waits = 0;   ///< of calls for a full ring
        std::uint64_t helped = 0;  ///< records whose lines a checkpoint wrote back
        std::uint64_t ticks = 0;   ///< of span_counter
        std::uint64_t longest_ticks = 0;
    };

    /// Where the lane's owner has a checkpoint, nobody goes on with it: its lines wait for a fence of that thread.
    void drop(const lane& of) noexcept {
        const base::scoped_lock lock(mutex);
        if (running.owner == &of) {
            running.owner = nullptr;
        }
    }

    void note_step(std::uint64_t ticks) noexcept HF_REQUIRES(mutex) {
        add(counted_.ticks, ticks);
        if (ticks > counted_.longest_ticks) {
            add(counted_.longest_ticks, ticks - counted_.longest_ticks);
        }
    }
    void note_end(unsigned fences) noexcept HF_REQUIRES(mutex) {
        add(counted_.fences, fences);
        add(counted_.checkpoints, 1);
    }
    void note_helped(std::uint64_t records) noexcept HF_REQUIRES(mutex) { add(counted_.helped, records); }
    void note_flush(const void* address) noexcept HF_REQUIRES(mutex) {
        const std::uint64_t line = reinterpret_cast<std::uintptr_t>(address) / base::cache_line_size;
        if (std::find(last_lines.begin(), last_lines.end(), line) != last_lines.end()) {
            add(counted_.reflushes, 1);
        }
        last_lines[counted_.flushed_lines % last_lines.size()] = line;
        add(counted_.flushed_lines, 1);
    }
    void note_wait() noexcept {
        std::atomic_ref<std::uint64_t>(counted_.waits).fetch_add(1, std::memory_order_relaxed);
    }
    [[nodiscard]] counters counted() const noexcept {
        const auto read = [](const std::uint64_t& counter) {
            return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(counter)).load(std::memory_order_relaxed);
        };
        return {read(counted_.fences),    read(counted_.checkpoints),  read(counted_.flushed_lines),
                read(counted_.reflushes), read(counted_.waits),        read(counted_.helped),
                read(counted_.ticks),     read(counted_.longest_ticks)};
    }

    std::atomic<std::uint64_t> time{0};  ///< T: of the last checkpoint
    base::mutex mutex;
    running_checkpoint running HF_GUARDED_BY(mutex);
    line_set lines HF_GUARDED_BY(mutex);  ///< that the running checkpoint has written back
    /// Of each lane, the last record that it passes.
    std::array<std::uint64_t, maximum_lanes> reached HF_GUARDED_BY(mutex){};
    std::array<std::uint64_t, 4> last_lines HF_GUARDED_BY(mutex){};
    std::uint64_t completed_before HF_GUARDED_BY(mutex) = 0;  ///< records of all lanes

private:
    /// Other threads read it at any time.
    static void add(std::uint64_t& counter, std::uint64_t value) noexcept {
        std::atomic_ref<std::uint64_t> all(counter);
        all.store(all.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
    }

    counters counted_;
};

template <class Domain>
inline constexpr bool may_log = Domain::kind == persist::domain_kind::disk || requires { Domain::models_disks; };

/// False once a sync of the domain or of the log has failed. `log` may be null.
template <persist::persistence_domain Domain>
[[nodiscard]] bool media_are_healthy(Domain& domain, record_log* log) noexcept {
    if constexpr (requires { domain.has_failed(); }) {
        if (log != nullptr && domain.has_failed()) {
            try {
                log->fail(domain.failure());
            } catch (const std::bad_alloc&) {
                log->fail({});
            }
        }
        return log == nullptr || !log->has_failed();
    }
    return true;
}

/// The lanes that checkpoints are of.
struct checkpointed_lanes {
    lanes_view all;
    const lane_options& options;
    segment::lane_area& area;
    const lanes_ahead& ahead;
    const announcement_barrier& barrier;
    record_clock& clock;
    const span_counter& spans;
    const std::unique_ptr<record_log>& log;  ///< null until the lanes are opened, and in other orders
};

/// What changes while checkpoints run stands in checkpoint_progress, whose lock is held.
template <persist::persistence_domain Domain>
class lane_checkpoint {
public:
    static constexpr std::uint64_t all_records = std::numeric_limits<std::uint64_t>::max();

    lane_checkpoint(Domain& domain, const checkpointed_lanes& of, checkpoint_progress& progress) noexcept
        : domain_(domain), of_(of), progress_(progress) {}
    lane_checkpoint(const lane_checkpoint&) = delete;
    lane_checkpoint& operator=(const lane_checkpoint&) = delete;
    ~lane_checkpoint() = default;

    /// For the analysis of threads: the caller has the lock, which it knows by another name.
    void has_lock() const noexcept HF_ASSERTS_HELD(progress_.mutex) {}
    /// Fixes T' and the records to pass. False where T' is not newer than the last one. `owner` may be null.
    [[nodiscard]] bool begin(const lane* owner) noexcept HF_REQUIRES(progress_.mutex);
    /// Passes so many records. True where the checkpoint has ended, and records became obsolete.
    bool advance(std::uint64_t records) noexcept HF_REQUIRES(progress_.mutex);

    /// All lines that records up to its time touched are durable (LANE-6).
    void seal(const checkpoint_on_media& checkpoint) noexcept {
        auto& head = *reinterpret_cast<lanes_head_on_media*>(of_.area.lanes());
        write_in_turn(head.checkpoints, checkpoint, of_.options.heap_key, domain_, "lane.checkpoint.time.write",
                      "lane.checkpoint.time.fence");
        progress_.time.store(checkpoint.time, std::memory_order_release);
    }

    /// Of an owner, ahead of a checkpoint. `held`: the lock of the line's words while it is held. False: another thread
    /// has it.
    [[nodiscard]] bool write_back_line(const void* line, base::mutex** held) noexcept {
        if (does_follow_states(line) && !follow_states(line, held)) {
            return false;
        }
        domain_.flush(line, 1, "lane.ahead.flush");
        return true;
    }

private:
    /// No store is lost: a checkpoint has no fences.
    static constexpr bool process_crashes_only = Domain::kind == persist::domain_kind::page_cache;

    [[nodiscard]] std::uint64_t time_of_next(std::uint64_t& lanes) noexcept HF_REQUIRES(progress_.mutex);
    [[nodiscard]] std::uint64_t write_back(const lane& of, std::uint64_t records) noexcept HF_REQUIRES(progress_.mutex);
    void end() noexcept HF_REQUIRES(progress_.mutex);
    [[nodiscard]] bool is_healthy() noexcept { return media_are_healthy(domain_, of_.log.get()); }
    void write_time(std::uint64_t time) noexcept HF_REQUIRES(progress_.mutex) {
        seal({time, of_.log != nullptr ? of_.log->begin_at(time) : log::mark{}});
    }
    /// The lock is not waited for: its thread may have ended.
    [[nodiscard]] bool follow_states(const void* address, base::mutex** held) noexcept HF_NO_THREAD_SAFETY_ANALYSIS;

    Domain& domain_;
    checkpointed_lanes of_;
    checkpoint_progress& progress_;
    /// By line: only one thread at a time stores to words that follow states.
    struct alignas(base::cache_line_size) word_mutex {
        base::mutex mutex;
    };
    std::array<word_mutex, 16> word_mutexes_;
};

/// Returns T'. `lanes` may have records up to it, and `progress_.reached` are the completed ones of each.
template <persist::persistence_domain Domain>
std::uint64_t lane_checkpoint<Domain>::time_of_next(std::uint64_t& lanes) noexcept {
    // A call announces itself before it takes its time, so each call with a time up to this one is announced: also
    // those of lanes made meanwhile, for the lanes are counted after the clock was read.
    std::uint64_t time = of_.clock.now();
    of_.barrier.see_announcements();
    lanes = of_.all.count.load(std::memory_order_acquire);
    // Announcements are read first, so a call that completes between counts as one of both. A line that several lanes
    // touched is written back once, so both are read before the first line is.
    for (std::uint64_t i = 0; i < lanes; ++i) {
        const std::uint64_t announced = of_.all.lanes[i]->announced.load(std::memory_order_acquire);
        if (announced != 0) {
            time = std::min(time, announced);
        }
    }
    for (std::uint64_t i = 0; i < lanes; ++i) {
        const lane& each = *of_.all.lanes[i];
        progress_.reached[i] = each.completed.load(std::memory_order_acquire);
    }
    return time;
}

/// Returns how many of `records` it has gone through, or all of them where it cannot go on now.
template <persist::persistence_domain Domain>
std::uint64_t lane_checkpoint<Domain>::write_back(const lane& of, std::uint64_t records) noexcept {
    touched_lines before{};  // neighbouring records often touch the same lines
    std::uint64_t done = 0;
    for (; done < records && progress_.running.next < progress_.reached[of.index]; ++done, ++progress_.running.next) {
        const slot_descriptor& descriptor = of.descriptors[(progress_.running.next + 1) & of.slot_mask];
        if (descriptor.time > progress_.running.time) {
            break;
        }
        for (std::size_t i = 0; i < descriptor.lines.size(); ++i) {
            const void* const line = descriptor.lines[i];
            if (line != nullptr && line != before[i] && progress_.lines.insert(line)) {
                if (does_follow_states(line)) {
                    base::mutex* held = nullptr;
                    if (!follow_states(line, &held)) {
                        progress_.lines.clear();  // it has this line, which is for a later step
                        return records;
                    }
                }
                domain_.flush(line, 1, "lane.checkpoint.flush");
                progress_.note_flush(line);
            }
        }
        before = descriptor.lines;
    }
    return done;
}

template <persist::persistence_domain Domain>
bool lane_checkpoint<Domain>::begin(const lane* owner) noexcept {
    progress_.running.owner = nullptr;
    if (!is_by_clock(of_.options.order)) {
        return false;
    }
    std::uint64_t lanes = 0;
    std::uint64_t time = time_of_next(lanes);
    if (owner != nullptr && of_.ahead.works(*owner)) {
        time = std::min(time, of_.ahead.time_written_back(*owner, lanes, progress_.reached));
    }
    if (time <= progress_.time.load(std::memory_order_relaxed)) {
        return false;
    }
    std::uint64_t completed = 0;
    std::uint64_t pending = 0;
    for (std::uint64_t i = 0; i < lanes; ++i) {
        const lane& each = *of_.all.lanes[i];
        completed += progress_.reached[i];
        if (each.ahead != nullptr) {
            progress_.reached[i] =
                last_record_at(each, each.obsolete.load(std::memory_order_relaxed), progress_.reached[i], time);
        }
        pending += progress_.reached[i] - std::min(written_back(each), progress_.reached[i]);
    }
    if (completed >= progress_.completed_before + progress_.last_lines.size()) {
        progress_.last_lines = {};  // records alone took so many lines
    }
    progress_.completed_before = completed;
    progress_.lines.clear();
    progress_.running = {owner, time,    lanes, 0, std::min(written_back(*of_.all.lanes[0]), progress_.reached[0]),
                         0,     pending, 0};
    return true;
}

template <persist::persistence_domain Domain>
bool lane_checkpoint<Domain>::advance(std::uint64_t records) noexcept {
    const std::uint64_t begin = of_.spans.now();
    while (progress_.running.at < progress_.running.lanes) {
        const lane& of = *of_.all.lanes[progress_.running.at];
        const std::uint64_t first = progress_.running.next;
        records -= write_back(of, records);
        progress_.note_helped(progress_.running.next - first);
        if (records == 0) {
            break;
        }
        progress_.reached[of.index] = progress_.running.next;
        progress_.running.passed += progress_.running.next - of.obsolete.load(std::memory_order_relaxed);
        if (++progress_.running.at < progress_.running.lanes) {
            progress_.running.next =
                std::min(written_back(*of_.all.lanes[progress_.running.at]), progress_.reached[progress_.running.at]);
        }
    }
    const bool ended = progress_.running.at == progress_.running.lanes;
    if (ended) {
        progress_.running.owner = nullptr;
        if (progress_.running.passed != 0) {
            end();
        }
    }
    progress_.note_step(of_.spans.now() - begin);
    return ended && progress_.running.passed != 0;
}

template <persist::persistence_domain Domain>
void lane_checkpoint<Domain>::end() noexcept {
    domain_.fence("lane.checkpoint.fence");
    if (!is_healthy()) {
        return;  // these lines may be lost, so their records stay
    }
    write_time(progress_.running.time);
    if (!is_healthy()) {
        return;
    }
    for (std::uint64_t i = 0; i < progress_.running.lanes; ++i) {
        of_.all.lanes[i]->obsolete.store(progress_.reached[i], std::memory_order_release);
    }
    if constexpr (may_log<Domain>) {
        if (of_.log != nullptr) {
            of_.log->release();
        }
    }
    progress_.note_end(process_crashes_only ? 0 : 2);
}

/// Only checkpoints and owners ahead of them store to these words.
template <persist::persistence_domain Domain>
bool lane_checkpoint<Domain>::follow_states(const void* address, base::mutex** held) noexcept {
    auto* const line = reinterpret_cast<std::uint64_t*>(
        base::align_down(reinterpret_cast<std::uintptr_t>(address), base::cache_line_size));
    if (does_follow_shadows(address)) {
        of_.options.states->withdraw_line(line, [this](std::uint64_t& word, std::uint64_t found, std::uint64_t wanted) {
            static_cast<void>(domain_.replace_if(word, found, wanted, "lane.checkpoint.entry"));  // else: a merge did
        });
        return true;
    }
    const auto number = reinterpret_cast<std::uintptr_t>(line) / base::cache_line_size;
    base::mutex& mutex = word_mutexes_[number % word_mutexes_.size()].mutex;
    if (!mutex.try_lock()) {
        return false;
    }
    *held = &mutex;
    std::array<std::uint64_t, base::cache_line_size / sizeof(std::uint64_t)> bits{};
    of_.options.states->bits_of_line(line, bits);
    for (std::size_t i = 0; i < bits.size(); ++i) {
        if (std::atomic_ref<std::uint64_t>(line[i]).load(std::memory_order_relaxed) != bits[i]) {
            domain_.store(line[i], bits[i], "lane.checkpoint.bits");
        }
    }
    *held = nullptr;
    mutex.unlock();
    return true;
}

}  // namespace holdfast::lane
