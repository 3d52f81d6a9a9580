// How far checkpoints are: the time of the last one, the one that runs, and what all have done.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/mutex.hpp"
#include "lane/lane.hpp"
#include "lane/line_set.hpp"

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

/// One thread at a time works on a checkpoint; others read the time and the counters.
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

}  // namespace holdfast::lane
