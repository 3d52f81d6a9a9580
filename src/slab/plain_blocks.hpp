// The paths that nearly every call takes, and what they need of a heap: five words, whichever parts of the heap they
// come from, so that callers can have them where they have the heap, and follow no pointer to them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/hot.hpp"
#include "base/units.hpp"
#include "slab/size_classes.hpp"
#include "slab/slab_pool.hpp"
#include "slab/slab_table.hpp"
#include "slab/thread_cache.hpp"

namespace holdfast::slab {

/// By size in units of 8 bytes: where in the lists of a thread's cache that of the class begins. 0 bytes have one that
/// is always empty.
inline constexpr auto places_of_lists = [] {
    static_assert(sizeof(cached_lists) <= std::numeric_limits<std::uint16_t>::max());
    std::array<std::uint16_t, fine_limit / 8 + 1> all{};
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = static_cast<std::uint16_t>((i == 0 ? class_count : fine_classes[i]) * sizeof(cached_blocks));
    }
    return all;
}();

/// The same from the open of a heap on, until it is closed, so that copies may be made; where it is abandoned, they
/// find nothing (block_allocator::abandon()).
struct plain_blocks {
    std::uintptr_t lists_at = 0;     ///< cache_group::place_at()
    std::uintptr_t base = 0;         ///< the address of offset 0
    std::uint64_t end = 0;           ///< below it blocks are free once their marks say so
    slab_record* records = nullptr;  ///< of all slabs
    slab_pool* pool = nullptr;

    /// At the alignment that malloc gives (16 where at least 16 bytes are wanted, else 8), if this thread's cache has
    /// such a block; else null, without a reason.
    [[nodiscard]] HF_HOT void* allocate(std::size_t bytes) const noexcept {
        if (bytes > fine_limit) [[unlikely]] {
            return nullptr;
        }
        // A thread without a cache has lists, too: so there is nothing to ask but whether one is empty.
        auto* const mine = *reinterpret_cast<std::byte* const*>(thread_anchor() + lists_at);
        return reinterpret_cast<cached_blocks*>(mine + places_of_lists[(bytes + 7) / 8])->try_hand_out();
    }
    /// Frees a small block of a slab in use; false, without a reason and with nothing done, for all other addresses.
    /// Without checks it is undefined what happens to those.
    template <bool Checks = true>
    [[nodiscard]] HF_HOT bool free(void* block) const noexcept {
        const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(block) - base;
        if (Checks && offset >= end) [[unlikely]] {
            return false;
        }
        slab_record& record = records[offset / base::granule_size];
        const auto found = slab_table::find_plain_mark(record.plain, offset);
        if (Checks && (!found.is_start || !holds(*found.mark, live_mark::live))) [[unlikely]] {
            return false;
        }
        std::atomic_ref(*found.mark).store(live_mark::free, std::memory_order_release);
        if (record.twin.count_in()) [[unlikely]] {
            look_at(record);
        }
        return true;
    }

    /// Of a heap that is closed: it has no block and takes none back, so that no caller need ask whether there is one.
    [[nodiscard]] static const plain_blocks& of_no_heap() noexcept;

private:
    /// Not inline, as it is rare.
    void look_at(const slab_record& freed) const noexcept;
};

}  // namespace holdfast::slab
