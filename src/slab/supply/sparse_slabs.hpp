// Sparse slabs (decision 20): their pages without a live block have no space on disk. In durability `commit`, a commit
// makes slabs of idle classes sparse: their header says that they may have holes, and their empty pages are given to
// the commit like free extents. No live block is ever in a hole:
//
// - A page becomes a hole only after a commit is durable in which the slab's header has its flag and the page has no
//   live block.
// - No block of a sparse slab is handed out, nor, because of its header, by a later process of any durability.
// - Before it is listed or morphed, it is repopulated: space on disk for the whole slab is reserved.
// - When its last block is gone, its granule becomes a free extent that is not known to have space.
// - A page that was a hole and has a block again is written like a page of a free extent that is in use again (LOG-9).
//
// A repopulated slab loses the flag with the next commit. In durabilities `atomic` and `collect` that would need a
// record or an order of stores, so it stays, and after the next open the slab is sparse once more.
#pragma once

#include <cstdint>

#include "base/mutex.hpp"
#include "base/units.hpp"
#include "segment/format/space.hpp"
#include "slab/pool/overlapped_blocks.hpp"
#include "slab/pool/pool_state.hpp"
#include "slab/pool/slab_bins.hpp"
#include "slab/pool/slab_source.hpp"
#include "slab/pool/slab_upkeep.hpp"

namespace holdfast::slab {

/// At most so many slabs are tried or repopulated for one request.
inline constexpr int tries_a_take = 32;

/// Pages without a live block, in order of address.
struct sparse_pages {
    segment::free_runs free;
    segment::free_runs holes;  ///< not made holes so far
};

/// repopulate() and repopulate_next() are thread-safe; the others come while all threads stand still.
class sparse_slabs {
public:
    sparse_slabs(pool_state& of, const slab_bins& bins, const slab_lists& lists, slab_source& source,
                 overlapped_blocks& overlapped, slab_upkeep& upkeep) noexcept
        : of_(of), bins_(bins), lists_(lists), source_(source), overlapped_(overlapped), upkeep_(upkeep) {}
    sparse_slabs(const sparse_slabs&) = delete;
    sparse_slabs& operator=(const sparse_slabs&) = delete;
    ~sparse_slabs() = default;

    /// False where there is no space on disk.
    [[nodiscard]] bool repopulate(slab_bin& owner, base::granule slab) noexcept HF_REQUIRES(owner.mutex);
    [[nodiscard]] bool repopulate_next(slab_bin& owner) noexcept HF_REQUIRES(owner.mutex);

    /// In durability `commit`, makes slabs of idle classes (`all`: of all classes) with whole pages without a live
    /// block sparse. Returns the pages that the commit need not write. Comes before write_bitmaps(). May throw
    /// std::bad_alloc, which loses nothing.
    [[nodiscard]] sparse_pages make_sparse(bool all);
    /// Comes when that commit is durable.
    void note_holes(const segment::free_runs& holes) noexcept;

    /// Those in which all blocks are free.
    [[nodiscard]] std::uint16_t pages_without_blocks(base::granule slab) const noexcept;

private:
    [[nodiscard]] std::uint16_t pages_with_blocks(base::granule slab, slab_kind kind, bool present) const noexcept;
    void make_sparse_of(std::uint64_t idle_classes) noexcept;
    void try_make_sparse(base::granule slab) noexcept;
    [[nodiscard]] std::uint64_t idle_classes(std::uint64_t now) const noexcept;

    pool_state& of_;
    const slab_bins& bins_;
    const slab_lists& lists_;
    slab_source& source_;
    overlapped_blocks& overlapped_;
    slab_upkeep& upkeep_;
    std::uint64_t looked_for_idle_ = 0;  ///< slab_demand::now() at the last make_sparse()
};

}  // namespace holdfast::slab
