#pragma once

#include <cstdint>

#include "base/units.hpp"
#include "lane/lane_format.hpp"
#include "slab/classes/size_classes.hpp"
#include "slab/classes/slab_kind.hpp"

namespace holdfast::slab {

[[nodiscard]] lane::block_word slab_word(slab_kind kind) noexcept;

/// Makes durable what must precede a change of a slab, in durabilities `atomic` and `collect`. Implemented by heap/.
/// After a failed sync no later call of the heap succeeds, so only the first function answers.
class slab_log {
public:
    slab_log() = default;
    slab_log(const slab_log&) = delete;
    slab_log& operator=(const slab_log&) = delete;
    virtual ~slab_log() = default;

    /// Writes a durable record, then header and page entry. False: a sync has failed, and nothing was stored.
    [[nodiscard]] virtual bool slab_created(base::granule slab, const size_class& size,
                                            std::uint32_t type) noexcept = 0;
    /// Writes a durable record, then the page entry of a reserved extent.
    virtual void slab_released(base::granule slab, const size_class& size, std::uint32_t type) noexcept = 0;
    /// Writes a durable record, then the header.
    virtual void slab_morphed(base::granule slab, slab_kind from, slab_kind to) noexcept = 0;
    /// Older blocks of a morphed slab are gone. In durability `collect`, makes their bits durable before others take
    /// their place.
    virtual void old_blocks_written(base::granule slab) noexcept = 0;
};

}  // namespace holdfast::slab
