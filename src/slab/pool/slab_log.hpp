// Durability `atomic` and `collect`: what must be durable before a slab may change.
#pragma once

#include <cstdint>

#include "base/units.hpp"
#include "lane/lane_format.hpp"
#include "slab/size_classes.hpp"
#include "slab/slab_kind.hpp"

namespace holdfast::slab {

/// A slab of blocks of a kind, without a type.
[[nodiscard]] lane::block_word slab_word(slab_kind kind) noexcept;

/// Durability `atomic`: the records that must be durable before a slab's page entry may change. Implemented by heap/.
class slab_log {
public:
    slab_log() = default;
    slab_log(const slab_log&) = delete;
    slab_log& operator=(const slab_log&) = delete;
    virtual ~slab_log() = default;

    /// Writes a durable record, then the header and the page entry of the slab. False where a sync has failed: the
    /// record is not durable, and nothing was stored.
    [[nodiscard]] virtual bool slab_created(base::granule slab, const size_class& size,
                                            std::uint32_t type) noexcept = 0;
    /// The other records need no answer: after a failed sync no later call of the heap succeeds.
    ///
    /// Writes a durable record; then the page entry says that the extent is reserved.
    virtual void slab_released(base::granule slab, const size_class& size, std::uint32_t type) noexcept = 0;
    /// A slab of one kind becomes a slab of another kind, whose bits lie in the other half of the bitmap.
    /// Writes a durable record, then the header.
    virtual void slab_morphed(base::granule slab, slab_kind from, slab_kind to) noexcept = 0;
    /// Some of the blocks that are older than the slab's present class are gone. Makes the bits of these blocks on
    /// media durable before others take their place. For durability `collect`, where a trace reads them.
    virtual void old_blocks_written(base::granule slab) noexcept = 0;
};

}  // namespace holdfast::slab
