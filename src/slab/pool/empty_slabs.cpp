#include "slab/pool/empty_slabs.hpp"

#include "extent/decay.hpp"

namespace holdfast::slab {

using base::granule;

void empty_slabs::relist(slab_bin& owner, granule slab) noexcept {
    if (!must_stay() && owner.empties != 0 && (!keeps_ || owner.type != 0 || of_.extents.now() == 0)) {
        source_.release(slab, owner.class_index, owner.type, true);
        return;
    }
    lists_.link(owner, slab, true);
    of_.table.descriptor(slab).frees_until_check.store(0, std::memory_order_relaxed);
}

void empty_slabs::release_oldest(slab_bin& owner) noexcept {
    const granule slab = linked(owner.oldest_empty);
    lists_.unlink(owner, slab);
    source_.release(slab, owner.class_index, owner.type, true);
}

void empty_slabs::flush() noexcept {
    if (must_stay()) {
        return;
    }
    bins_.for_each([this](slab_bin& owner) {
        const base::scoped_lock lock(owner.mutex);
        while (owner.empties > 1) {
            release_oldest(owner);
        }
    });
}

void empty_slabs::release_all() noexcept {
    if (must_stay()) {
        return;
    }
    bins_.for_each([this](slab_bin& owner) {
        const base::scoped_lock lock(owner.mutex);
        while (owner.empties != 0) {
            release_oldest(owner);
        }
    });
}

void empty_slabs::give_up() noexcept {
    if (must_stay()) {
        return;
    }
    for (unsigned i = 0; i < bins_.count(); ++i) {
        slab_bin& owner = bins_[i];
        if (owner.mutex.try_lock()) {
            while (owner.empties != 0) {
                release_oldest(owner);
            }
            owner.mutex.unlock();
        }
    }
}

bool empty_slabs::decay(std::uint64_t now, unsigned times) noexcept {
    if (!keeps_ || must_stay() || now < period_end_.load(std::memory_order_relaxed) || !decaying_.try_lock()) {
        return false;
    }
    decay_some(now, times);
    decaying_.unlock();
    return now >= period_end_.load(std::memory_order_relaxed);
}

void empty_slabs::decay_some(std::uint64_t now, unsigned times) noexcept {
    const unsigned most_bins = 16 * times;
    const unsigned most_slabs = 16 * times;
    unsigned gone = 0;
    for (unsigned bins = 0; bins < most_bins && gone < most_slabs && scan_cursor_ < bins_.count(); ++bins) {
        slab_bin& owner = bins_[scan_cursor_];
        const base::scoped_lock lock(owner.mutex);
        for (; owner.idle != 0 && gone < most_slabs; ++gone) {
            const std::uint32_t left = owner.idle - 1;
            release_oldest(owner);
            owner.idle = left;
        }
        if (owner.idle == 0) {
            owner.idle = owner.empties;
            ++scan_cursor_;
        }
    }
    if (scan_cursor_ == bins_.count()) {
        scan_cursor_ = 0;
        period_end_.store(now + extent::decay_curve::step_ns, std::memory_order_relaxed);
    }
}

}  // namespace holdfast::slab
