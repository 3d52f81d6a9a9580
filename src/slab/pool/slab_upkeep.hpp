// How free blocks are noticed: an inspection of a slab decides in which list of its bin it belongs. A counter of frees
// leads to it (SLAB-10), or, because counts may be lost, inspect_some(). One that comes too early does no harm.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <memory>

#include "base/atomic.hpp"
#include "base/mutex.hpp"
#include "base/units.hpp"
#include "extent/extent_cache.hpp"
#include "slab/pool/empty_slabs.hpp"
#include "slab/pool/overlapped_blocks.hpp"
#include "slab/pool/pool_state.hpp"
#include "slab/pool/slab_bins.hpp"
#include "slab/pool/slab_source.hpp"

namespace holdfast::slab {

/// Wakes the thread that gives free memory back while a program rests. It sleeps where there is nothing to give back.
/// Thread-safe; one thread at a time sleeps.
class upkeep_alarm {
public:
    /// The heap is used: there may be something to give back later. No system call unless the thread sleeps.
    void note_use() noexcept {
        if (state_.load(std::memory_order_relaxed) != used) {
            wake();
        }
    }
    /// Whether note_use() came since the last time.
    [[nodiscard]] bool take_use() noexcept { return state_.exchange(unused) == used; }
    /// Until the next note_use(), or for no reason.
    void sleep() noexcept {
        constexpr timespec long_time{.tv_sec = 86'400, .tv_nsec = 0};
        std::uint32_t expected = unused;
        if (state_.compare_exchange_strong(expected, asleep)) {
            base::sleep_while(state_, asleep, long_time);
            expected = asleep;
            state_.compare_exchange_strong(expected, unused);
        }
    }

private:
    static constexpr std::uint32_t unused = 0;
    static constexpr std::uint32_t used = 1;
    static constexpr std::uint32_t asleep = 2;

    void wake() noexcept {
        if (state_.exchange(used) == asleep) {
            base::wake_sleepers(state_);
        }
    }

    base::atomic<std::uint32_t> state_{unused};
};

/// Thread-safe, except for reset(). Functions without HF_REQUIRES take the lock of the slab's bin.
class slab_upkeep {
public:
    slab_upkeep(pool_state& of, const slab_lists& lists, slab_source& source, empty_slabs& empties,
                overlapped_blocks& overlapped) noexcept
        : of_(of), lists_(lists), source_(source), empties_(empties), overlapped_(overlapped) {}
    slab_upkeep(const slab_upkeep&) = delete;
    slab_upkeep& operator=(const slab_upkeep&) = delete;
    ~slab_upkeep() = default;

    /// What nobody has needed for a while goes back, a little at a time, whatever the program calls: the slow paths of
    /// allocations and frees come here, at least once in some hundred calls of a thread. Does nothing before the next
    /// step of the decay. Inside a slow call; no lock of a bin may be held.
    void age() noexcept { age(of_.extents.now()); }
    void age(std::uint64_t now) noexcept {
        if (now >= next_age_.load(std::memory_order_relaxed) && now != 0) [[unlikely]] {
            age_at(now);
            alarm_.note_use();
        }
    }
    /// As age(), but not inside a slow call: for a thread that does nothing else, and sleeps by alarm().
    void age_alone() noexcept;
    /// Where frees were noticed.
    [[nodiscard]] upkeep_alarm& alarm() noexcept { return alarm_; }
    /// Null: nothing is cached. Comes while no other thread uses this object.
    void age_caches(extent::extent_caches* caches) noexcept { caches_ = caches; }

    /// May throw std::bad_alloc.
    void reset() { scan_cursors_ = std::make_unique<scan_cursor[]>(of_.extents.nodes()); }

    /// Puts a slab that is in no list among the empty ones, or lists it where at least `worth` of its blocks are free
    /// and in no part that is out.
    void relist(slab_bin& owner, base::granule slab, std::uint32_t worth) noexcept HF_REQUIRES(owner.mutex);
    /// Releases a sparse slab without a block: it may have holes.
    void relist_sparse(slab_bin& owner, base::granule slab) noexcept HF_REQUIRES(owner.mutex);
    void note_use(slab_bin& from, base::granule slab) const noexcept HF_REQUIRES(from.mutex);
    /// The free ones of a word, in no part that is out.
    [[nodiscard]] std::uint64_t bits_at_hand(base::granule slab, unsigned class_index, std::size_t word) const noexcept;
    [[nodiscard]] std::uint32_t worth(const slab_bin& owner) const noexcept {
        return of_.demand.is_space_short() ? 1 : worth_a_scan(size_classes[owner.class_index].block_count);
    }

    /// Does nothing where the slab is not loaded. `worth` 0: the usual number for its class.
    void inspect(base::granule slab, std::uint32_t worth) noexcept;
    /// Before a new slab is made, finds frees that were not counted, in a few slabs of the arena's node.
    void inspect_some(unsigned arena) noexcept;
    void inspect_every_slab() noexcept;
    void note_frees(base::granule slab, std::uint32_t blocks) noexcept {
        slab_descriptor& descriptor = of_.table.descriptor(slab);
        const std::int32_t left =
            descriptor.frees_until_check.load(std::memory_order_relaxed) - static_cast<std::int32_t>(blocks);
        descriptor.frees_until_check.store(left, std::memory_order_relaxed);
        if (left <= 0) [[unlikely]] {
            inspect(slab, 0);
        }
    }
    /// A block of a clean slab is about to become free.
    void note_change(base::granule slab) noexcept;
    /// Threads must stand still. Does nothing where the log's owner writes the bitmaps.
    void write_bitmaps() noexcept;

private:
    void age_at(std::uint64_t now) noexcept;

    pool_state& of_;
    const slab_lists& lists_;
    slab_source& source_;
    empty_slabs& empties_;
    overlapped_blocks& overlapped_;
    std::unique_ptr<scan_cursor[]> scan_cursors_;
    extent::extent_caches* caches_ = nullptr;
    base::mutex aging_;
    std::atomic<std::uint64_t> next_age_{0};  ///< nanoseconds
    upkeep_alarm alarm_;
};

}  // namespace holdfast::slab
