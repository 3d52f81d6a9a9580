#pragma once

#include <atomic>
#include <cstdint>

#include "base/units.hpp"

namespace holdfast::slab {

struct slab_bin;

/// What DRAM holds of a loaded slab beside its state. The owner's lock guards all but `frees_until_check`; the owner
/// itself never moves. A thread that has freed the last block may find another slab's descriptor.
struct alignas(base::cache_line_size) slab_descriptor {
    /// Decides when to look, never what is found: two frees at once may lose a decrement.
    std::atomic<std::int32_t> frees_until_check;
    std::uint32_t next;      ///< in a list of the owner: granule + 1, 0 at the end
    std::uint32_t previous;  ///< 0 at the head
    std::atomic<slab_bin*> owner;
    std::atomic<bool> in_list;  ///< to allocate from, or empty
    bool is_empty;
    std::atomic<bool> sparse;  ///< in that list
    std::uint8_t parts_out;    ///< bit k: a thread has part k
    std::uint8_t first_word;   ///< where the next search for a single block begins
    /// At the last look: older blocks that were not free, and new ones that overlap them.
    std::uint16_t old_taken;
    std::uint16_t old_overlapped;
    static constexpr std::uint16_t not_looked_at = 0xffff;
    /// In a sparse slab, a bit for each page: without a live block at the last look, or a hole.
    std::uint16_t empty_pages;
    std::uint16_t hole_pages;

    [[nodiscard]] bool listed() const noexcept { return in_list.load(std::memory_order_relaxed); }
    void set_listed(bool listed) noexcept { in_list.store(listed, std::memory_order_relaxed); }
    /// True: look at the slab now. On x86, one instruction without a lock prefix.
    [[nodiscard]] bool count_in() noexcept {
#if defined(__x86_64__)
        bool due = false;
        asm("subl $1, %0" : "+m"(reinterpret_cast<std::int32_t&>(frees_until_check)), "=@ccle"(due));
        return due;
#else
        const std::int32_t left = frees_until_check.load(std::memory_order_relaxed) - 1;
        frees_until_check.store(left, std::memory_order_relaxed);
        return left <= 0;
#endif
    }
    [[nodiscard]] bool is_sparse() const noexcept { return sparse.load(std::memory_order_relaxed); }
    void set_sparse(bool now) noexcept { sparse.store(now, std::memory_order_relaxed); }
    void count_out(std::uint32_t blocks) noexcept {
        frees_until_check.store(frees_until_check.load(std::memory_order_relaxed) + static_cast<std::int32_t>(blocks),
                                std::memory_order_relaxed);
    }
};
static_assert(sizeof(slab_descriptor) == base::cache_line_size);

/// Finds blocks that are freed by their states alone. Every free reads it, so it is not in the descriptor's line, which
/// every free writes.
struct alignas(base::cache_line_size) fast_slab {
    /// The lower half is the reciprocal of the blocks' class, or 0 where no block is freed by its state alone. The
    /// upper half counts changes: `states` fits if the version is equal before and after.
    std::uint64_t version;
    std::uint8_t* states;  ///< of the first block
};

/// One address leads a free to both.
struct slab_entry {
    fast_slab fast;
    slab_descriptor descriptor;
};
static_assert(sizeof(slab_entry) == 2 * base::cache_line_size);

}  // namespace holdfast::slab
