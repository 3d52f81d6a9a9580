// The paths that nearly every call takes, and the words of a heap that they need.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/hot.hpp"
#include "base/units.hpp"
#include "slab/calls/thread_cache.hpp"
#include "slab/classes/size_classes.hpp"
#include "slab/pool/slab_table.hpp"
#include "slab/supply/slab_pool.hpp"

namespace holdfast::slab {

/// By size in units of 8 bytes, aligned as malloc does: the list's place among a thread's lists.
inline constexpr auto places_of_lists = [] {
    static_assert(sizeof(cached_lists) <= std::numeric_limits<std::uint16_t>::max());
    std::array<std::uint16_t, fine_limit / 8 + 1> all{};
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = static_cast<std::uint16_t>((i == 0 ? class_count : fine_classes_of_malloc[i]) * sizeof(cached_blocks));
    }
    return all;
}();

/// Constant while the heap is open. After block_allocator::abandon() copies find nothing.
struct fast_path {
    std::uintptr_t lists_at = 0;  ///< cache_group::place_at()
    std::uintptr_t base = 0;
    std::uint64_t end = 0;  ///< below it the state alone frees a block; 0 in heaps with shadows
    slab_entry* entries = nullptr;
    slab_pool* pool = nullptr;

    /// Aligns as malloc does (16 for at least 16 bytes, else 8). Null, without a reason, where the thread has no block.
    [[nodiscard]] HF_HOT void* allocate(std::size_t bytes) const noexcept {
        if (bytes > fine_limit) [[unlikely]] {
            return nullptr;
        }
        auto* const mine = *reinterpret_cast<std::byte* const*>(thread_anchor() + lists_at);
        return reinterpret_cast<cached_blocks*>(mine + places_of_lists[(bytes + 7) / 8])->try_hand_out();
    }
    /// Frees a small block of a slab in use. False, and nothing is changed, for all other addresses, without a reason;
    /// without checks they are undefined behaviour.
    template <bool Checks = true>
    [[nodiscard]] HF_HOT bool free(void* block) const noexcept {
        const slab_entry* due = nullptr;
        if (!free<Checks>(block, due)) [[unlikely]] {
            return false;
        }
        if (due != nullptr) [[unlikely]] {
            inspect(*due);
        }
        return true;
    }
    /// The caller calls inspect() where `due` is set.
    template <bool Checks = true>
    [[nodiscard]] HF_HOT bool free(void* block, const slab_entry*& due) const noexcept {
        const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(block) - base;
        if (Checks && offset >= end) [[unlikely]] {
            return false;
        }
        slab_entry& entry = entries[offset / base::granule_size];
        const auto found = slab_table::find_block_state_fast(entry.fast, offset);
        if (Checks && (!found.is_start || !holds(*found.state, block_state::live))) [[unlikely]] {
            return false;
        }
        std::atomic_ref(*found.state).store(block_state::free, std::memory_order_release);
        if (entry.descriptor.count_in()) [[unlikely]] {
            due = &entry;
        }
        return true;
    }
    void inspect(const slab_entry& freed) const noexcept;

    /// For callers that do not ask whether a heap is open.
    [[nodiscard]] static const fast_path& of_no_heap() noexcept;
};

}  // namespace holdfast::slab
