// Slabs that were found at open and are known by their state bytes alone, until a bin that needs blocks, or a free,
// loads their bitmaps into block states.
//
// - One without a type is counted in the search of its class and node; one with a type is in its bin's list.
// - Where the bitmap gets no space on disk, a free of its blocks fails, an allocation goes to the next slab, and later
//   calls try again.
// - A slab whose bitmap is not what was committed, or breaks SLAB-4 or SLAB-12, is quarantined.
#pragma once

#include <cstdint>
#include <memory>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "slab/pool/overlapped_blocks.hpp"
#include "slab/pool/pool_state.hpp"
#include "slab/pool/slab_bins.hpp"
#include "slab/pool/slab_source.hpp"
#include "slab/pool/slab_upkeep.hpp"

namespace holdfast::slab {

/// Thread-safe, except for reset() and record().
class slab_loader {
public:
    slab_loader(pool_state& of, slab_bins& bins, const slab_lists& lists, slab_source& source,
                overlapped_blocks& overlapped, slab_upkeep& upkeep) noexcept
        : of_(of), bins_(bins), lists_(lists), source_(source), overlapped_(overlapped), upkeep_(upkeep) {}
    slab_loader(const slab_loader&) = delete;
    slab_loader& operator=(const slab_loader&) = delete;
    ~slab_loader() = default;

    /// May throw std::bad_alloc.
    void reset();
    /// Quarantines a slab whose header breaks an invariant. May throw std::bad_alloc.
    void record(base::granule found) HF_NO_THREAD_SAFETY_ANALYSIS;

    /// Loads or quarantines a slab that is unloaded. Fails as bitmap_verifier::back() does: a later call may load it.
    [[nodiscard]] base::result<void> load(base::granule unloaded, unsigned arena) noexcept;
    /// False where none is left, or all were tried in this pass without space on disk; the next call begins the next
    /// pass.
    [[nodiscard]] bool load_next(slab_bin& owner) noexcept HF_REQUIRES(owner.mutex);
    /// Loads for one arena of each node: others would only try again.
    [[nodiscard]] bool load_next_of_all(slab_bin& owner) noexcept HF_REQUIRES(owner.mutex) {
        return owner.arena < of_.extents.nodes() && load_next(owner);
    }
    void load_all() noexcept;

private:
    /// The search reads state bytes from the cursor on.
    struct unloaded_slabs {
        static constexpr std::uint64_t none = ~std::uint64_t{0};
        base::mutex mutex;
        std::uint64_t cursor HF_GUARDED_BY(mutex) = 0;
        std::uint64_t first_refused HF_GUARDED_BY(mutex) = none;  ///< the next pass begins here
        std::uint64_t count HF_GUARDED_BY(mutex) = 0;
    };

    [[nodiscard]] unloaded_slabs& unloaded_slabs_of(std::uint32_t node, unsigned class_index) const noexcept {
        return unloaded_slabs_[node * class_count + class_index];
    }
    [[nodiscard]] bool load_next_typed(typed_bin& owner) noexcept HF_REQUIRES(owner.mutex);
    [[nodiscard]] base::result<void> load_typed(base::granule unloaded, unsigned class_index) noexcept;
    [[nodiscard]] base::result<void> load_into(slab_bin& owner, base::granule slab) noexcept HF_REQUIRES(owner.mutex);

    pool_state& of_;
    slab_bins& bins_;
    const slab_lists& lists_;
    slab_source& source_;
    overlapped_blocks& overlapped_;
    slab_upkeep& upkeep_;
    std::unique_ptr<unloaded_slabs[]> unloaded_slabs_;
    std::uint64_t recorded_end_ = 0;  ///< granules; none at or beyond it
};

}  // namespace holdfast::slab
