// Slab morphing (PMAlloc 5.2, decision 20): a slab with few live blocks becomes a slab of another class.
//
// A slab's bitmap on media has two halves, and its block states two banks. Older blocks keep their bits and states, so
// a thread that looked at the slab before the morph frees one in the usual way. Blocks of the new class have the other
// half and bank. So a morph is one change of the header. Slabs are tried in order of address; PMAlloc takes the least
// recently used.
//
// - A slab that is morphed has no type, no part out and no older blocks, and it stays on its node.
// - A sparse slab is repopulated first: no new block may lie in a hole.
#pragma once

#include <memory>
#include <optional>

#include "base/units.hpp"
#include "slab/pool/overlapped_blocks.hpp"
#include "slab/pool/pool_state.hpp"
#include "slab/pool/slab_bins.hpp"
#include "slab/pool/slab_upkeep.hpp"
#include "slab/supply/sparse_slabs.hpp"

namespace holdfast::slab {

/// Thread-safe, except for reset(). Takes the locks of bins.
class slab_morpher {
public:
    slab_morpher(pool_state& of, const slab_bins& bins, const slab_lists& lists, overlapped_blocks& overlapped,
                 slab_upkeep& upkeep, sparse_slabs& sparse) noexcept
        : of_(of), bins_(bins), lists_(lists), overlapped_(overlapped), upkeep_(upkeep), sparse_(sparse) {}
    slab_morpher(const slab_morpher&) = delete;
    slab_morpher& operator=(const slab_morpher&) = delete;
    ~slab_morpher() = default;

    /// May throw std::bad_alloc.
    void reset() { scan_cursors_ = std::make_unique<scan_cursor[]>(of_.extents.nodes()); }
    void morph_some(slab_bin& wanted) noexcept;
    /// False, and nothing is changed, where a part is out or the slab does not fit. `overlapped_at_most`: percent of
    /// new blocks that may overlap live ones.
    bool morph(base::granule slab, unsigned arena, unsigned class_index, unsigned overlapped_at_most) noexcept;

private:
    bool morph_into(slab_bin& wanted, base::granule slab, std::optional<unsigned> limit) noexcept;
    void become(slab_bin& wanted, base::granule slab, slab_kind from, slab_kind to) noexcept;

    pool_state& of_;
    const slab_bins& bins_;
    const slab_lists& lists_;
    overlapped_blocks& overlapped_;
    slab_upkeep& upkeep_;
    sparse_slabs& sparse_;
    std::unique_ptr<scan_cursor[]> scan_cursors_;
};

}  // namespace holdfast::slab
