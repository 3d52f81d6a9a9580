// The slabs of a heap and the threads that allocate from them (decision 15).
//
// A thread checks out a slab or a part of one from a bin, and until it checks it in, it alone allocates from it, by
// block states and without a lock. Any thread frees blocks of any slab by their states. Blocks with a type number are
// taken one by one, under the lock of their bin. In durability `commit`, a slab without a change since the last commit
// is clean: a thread ends that state before it allocates from the slab or frees a block of it.
//
// The parts of a pool, from the bottom up; each uses only those before it: pool_state, slab_bins, slab_source,
// empty_slabs, overlapped_blocks, slab_upkeep with remote_frees, slab_loader, sparse_slabs, slab_morpher, slab_supply.
//
// docs/architecture.md ("Threads") has the order of locks. That of empty_slabs is only tried, and
// empty_slabs::give_up() only tries the locks of bins, because its caller may hold one. No other lock is taken while
// the lock of slab_bins or of the pins is held.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/extent.hpp"
#include "segment/format/space.hpp"
#include "slab/nodes/remote_frees.hpp"
#include "slab/pool/empty_slabs.hpp"
#include "slab/pool/overlapped_blocks.hpp"
#include "slab/pool/pool_state.hpp"
#include "slab/pool/slab_bins.hpp"
#include "slab/pool/slab_loader.hpp"
#include "slab/pool/slab_source.hpp"
#include "slab/pool/slab_upkeep.hpp"
#include "slab/supply/morphing.hpp"
#include "slab/supply/slab_supply.hpp"
#include "slab/supply/sparse_slabs.hpp"

namespace holdfast::slab {

/// Thread-safe, except for reset() and where a part says otherwise.
class slab_pool {
public:
    /// `verifier` may be null.
    slab_pool(segment::space_view space, extent::extent_allocator& extents, segment::bitmap_verifier* verifier,
              gate_of_pool& gate) noexcept
        : state_(space, extents, gate), source_(state_, verifier) {}
    slab_pool(const slab_pool&) = delete;
    slab_pool& operator=(const slab_pool&) = delete;
    ~slab_pool() = default;

    /// May throw std::bad_alloc.
    [[nodiscard]] base::result<void> reset();
    void set_log(slab_log* log, bool writes_bitmaps) noexcept {
        state_.log = log;
        state_.tracks_changes = !writes_bitmaps;
    }
    void set_traced(bool traced) noexcept { state_.traced = traced; }
    void set_keeps_slabs(bool kept) noexcept { state_.keeps_slabs.store(kept, std::memory_order_relaxed); }
    [[nodiscard]] base::granule end() const noexcept { return state_.end(); }
    /// In a child of fork: finds and frees no block.
    void abandon() noexcept {
        state_.table.refuse_fast_frees();
        state_.table.forget_entries();
    }

    [[nodiscard]] const slab_table& table() const noexcept { return state_.table; }
    [[nodiscard]] const slab_demand& demand() const noexcept { return state_.demand; }
    [[nodiscard]] pinned_blocks& pins() noexcept { return state_.pins; }
    [[nodiscard]] const pinned_blocks& pins() const noexcept { return state_.pins; }
    [[nodiscard]] const slab_bins& bins() const noexcept { return bins_; }
    [[nodiscard]] slab_source& source() noexcept { return source_; }
    [[nodiscard]] const slab_source& source() const noexcept { return source_; }
    [[nodiscard]] empty_slabs& empties() noexcept { return empties_; }
    [[nodiscard]] slab_upkeep& upkeep() noexcept { return upkeep_; }
    [[nodiscard]] const remote_frees& remote() const noexcept { return remote_; }
    [[nodiscard]] remote_frees& remote() noexcept { return remote_; }
    [[nodiscard]] slab_loader& loader() noexcept { return loader_; }
    [[nodiscard]] sparse_slabs& sparse() noexcept { return sparse_; }
    [[nodiscard]] slab_morpher& morpher() noexcept { return morpher_; }
    [[nodiscard]] slab_supply& supply() noexcept { return supply_; }

    void note_free(base::granule slab) noexcept {
        if (state_.table.descriptor(slab).count_in()) [[unlikely]] {
            upkeep_.inspect(slab, 0);
        }
    }
    void hand_out(std::uint64_t offset) const noexcept;
    [[nodiscard]] bool is_idle(slab_part part) const noexcept;
    /// During the pause of a commit.
    void write_bitmaps() noexcept {
        remote_.merge_all();
        upkeep_.write_bitmaps();
    }
    /// Before write_bitmaps(). Other threads stand still.
    [[nodiscard]] sparse_pages make_sparse(bool all) {
        remote_.merge_all();
        return sparse_.make_sparse(all);
    }
    void release_empty() noexcept;

private:
    friend class slab_checker;

    pool_state state_;
    slab_bins bins_;
    slab_lists lists_{state_.table};
    slab_source source_;
    empty_slabs empties_{state_, bins_, lists_, source_};
    overlapped_blocks overlapped_{state_};
    slab_upkeep upkeep_{state_, lists_, source_, empties_, overlapped_};
    remote_frees remote_;
    slab_loader loader_{state_, bins_, lists_, source_, overlapped_, upkeep_};
    sparse_slabs sparse_{state_, bins_, lists_, source_, overlapped_, upkeep_};
    slab_morpher morpher_{state_, bins_, lists_, overlapped_, upkeep_, sparse_};
    slab_supply supply_{state_, {bins_, lists_, source_, empties_, upkeep_, loader_, sparse_, morpher_, remote_}};
};

}  // namespace holdfast::slab
