// Slabs without a block out: their bins keep them as long as they are needed now and then.
//
// A program that frees what it has and allocates as much again gets the same slabs: their marks and blocks are in the
// cache of the core that used them last, and no extent, header or bitmap changes. They do not make the heap larger:
// before it grows, the extents ask for them (give_up_empty()), as for cached extents. A slab that a bin kept for a
// whole period without need becomes a free extent, which decays (extent_cache.hpp does so with its extents).
#include "extent/decay.hpp"
#include "slab/slab_pool.hpp"

namespace holdfast::slab {

using base::granule;

bool slab_pool::is_idle(slab_part part) const noexcept {
    const unsigned kind = kind_in(part.slab);
    const size_class& size = size_classes[slab_state::class_of_kind(kind)];
    const block_range blocks = part.blocks(size);
    for (std::size_t word = blocks.first_word(); word < blocks.end_word(); ++word) {
        const std::uint64_t all = blocks.bits(word);
        if ((table_.free_bits(part.slab, kind, word) & all) != all) {
            return false;
        }
    }
    return true;
}

/// Comes for a slab in no list that has no block and no part out. A bin with a type keeps at most one empty slab,
/// because its slabs are not aged.
void slab_pool::settle_empty(bin& owner, granule slab) noexcept {
    if (owner.empties != 0 && (!keeps_empty_ || owner.type != 0 || extents_.now() == 0)) {
        release(owner, slab);
        return;
    }
    link(owner, slab, true);
    table_.twin(slab).countdown.store(0, std::memory_order_relaxed);
}

void slab_pool::release_oldest_empty(bin& owner) noexcept {
    const granule slab = linked(owner.oldest_empty);
    unlink(owner, slab);
    release(owner, slab);
}

void slab_pool::flush_empty() noexcept {
    for (unsigned i = 0; i < arenas_ * class_count; ++i) {
        const base::scoped_lock lock(bins_[i].mutex);
        while (bins_[i].empties > 1) {
            release_oldest_empty(bins_[i]);
        }
    }
}

/// Skips bins whose lock is taken: the caller may hold it.
void slab_pool::give_up_empty() noexcept {
    for (unsigned i = 0; i < arenas_ * class_count; ++i) {
        bin& owner = bins_[i];
        if (owner.mutex.try_lock()) {
            while (owner.empties != 0) {
                release_oldest_empty(owner);
            }
            owner.mutex.unlock();
        }
    }
}

/// Once a period, the first thread that comes ages the empty slabs of all bins, because threads of some bins may be
/// gone. Must not be called with the lock of a bin held.
void slab_pool::fade_empty() noexcept {
    if (!keeps_empty_) {
        return;
    }
    const std::uint64_t now = extents_.now();
    if (now >= period_end_.load(std::memory_order_relaxed) && now != 0 && fading_.try_lock()) {
        fade_some_empty(now);
        fading_.unlock();
    }
}

/// Works on a few bins and slabs at a time, so that no free takes long.
void slab_pool::fade_some_empty(std::uint64_t now) noexcept {
    constexpr unsigned most_bins = 16;
    constexpr unsigned most_slabs = 16;
    unsigned gone = 0;
    for (unsigned bins = 0; bins < most_bins && gone < most_slabs && hand_ < arenas_ * class_count; ++bins) {
        bin& owner = bins_[hand_];
        const base::scoped_lock lock(owner.mutex);
        for (; owner.idle != 0 && gone < most_slabs; ++gone) {
            const std::uint32_t left = owner.idle - 1;
            release_oldest_empty(owner);
            owner.idle = left;
        }
        if (owner.idle == 0) {
            owner.idle = owner.empties;
            ++hand_;
        }
    }
    if (hand_ == arenas_ * class_count) {
        hand_ = 0;
        period_end_.store(now + extent::decay_curve::step_ns, std::memory_order_relaxed);
    }
}

}  // namespace holdfast::slab
