// Slabs without a block out: their bins keep them while they are needed now and then (decision 21).
//
// - Blocks are allocated from an empty slab only where its bin has no other slab.
// - slab_bin::idle is at most slab_bin::empties (SLAB-8).
// - A bin with a type keeps one at most, because its slabs are not aged.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/mutex.hpp"
#include "slab/pool/pool_state.hpp"
#include "slab/pool/slab_bins.hpp"
#include "slab/pool/slab_source.hpp"

namespace holdfast::slab {

/// Thread-safe, except for keep().
class empty_slabs {
public:
    empty_slabs(pool_state& of, const slab_bins& bins, const slab_lists& lists, slab_source& source) noexcept
        : of_(of), bins_(bins), lists_(lists), source_(source) {}
    empty_slabs(const empty_slabs&) = delete;
    empty_slabs& operator=(const empty_slabs&) = delete;
    ~empty_slabs() = default;

    /// False: each bin keeps one.
    void keep(bool kept) noexcept { keeps_ = kept; }
    /// The slab is in no list.
    void relist(slab_bin& owner, base::granule slab) noexcept HF_REQUIRES(owner.mutex);
    /// Leaves one in each bin, and those that nobody has looked at.
    void flush() noexcept;
    void release_all() noexcept;
    /// Before the heap grows. Skips bins with a type, and taken locks: the caller may hold one.
    void give_up() noexcept;
    /// Once a period, ages the empty slabs of all bins: threads of some may be gone. A little at a time, `times` as
    /// much: true where more is to be done. No lock of a bin may be held.
    bool decay(std::uint64_t now, unsigned times) noexcept;

private:
    /// Slabs whose blocks may come back.
    [[nodiscard]] bool must_stay() const noexcept { return of_.keeps_slabs.load(std::memory_order_relaxed); }
    void release_oldest(slab_bin& owner) noexcept HF_REQUIRES(owner.mutex);
    void decay_some(std::uint64_t now, unsigned times) noexcept HF_REQUIRES(decaying_);

    pool_state& of_;
    const slab_bins& bins_;
    const slab_lists& lists_;
    slab_source& source_;
    bool keeps_ = false;
    std::atomic<std::uint64_t> period_end_{0};  ///< nanoseconds
    base::mutex decaying_;
    unsigned scan_cursor_ HF_GUARDED_BY(decaying_) = 0;
};

}  // namespace holdfast::slab
