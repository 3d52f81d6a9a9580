// The data of a slab, which fills granule g of 64 KiB with blocks of one size.
//
//   on media (segment/format/)                                    who stores it
//     page entry    8 bytes: kind `slab`, 16 pages                slab_source, and who releases the slab
//     slab header  64 bytes: block size and count, flags, type    the thread that makes the slab, or morphs it
//     live bitmap   1 KiB:   a bit for each block                 commits and checkpoints, from the block states
//   in DRAM, rebuilt at open (slab_table)
//     state         1 byte:  none, quarantined, unloaded, clean,  one thread at a time; where the slab has live blocks,
//                            loaded; with its class or kind       under the lock of its owner (a bin)
//     morph state   1 byte:  class of older blocks, and bank      the thread that morphs it, under that lock
//     fast_slab    64 bytes: where the block states are           set_state()
//     descriptor   64 bytes: owner, lists, parts that are out     under the owner's lock, but for frees_until_check
//     block states  a byte a block: free, live, freeing, held     who has the block's part takes it (free to live);
//                            (block_states.hpp)                   any thread frees it (live to free)
//
// A free reads fast_slab and stores one block state; it counts down frees_until_check in the descriptor. An allocation
// takes its block from the part that its thread has: no other thread takes blocks there.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "segment/format/heap_format.hpp"
#include "slab/classes/size_classes.hpp"
#include "slab/pool/block_states.hpp"

namespace holdfast::slab {

// A byte for each granule: what is there.
namespace slab_state {
inline constexpr std::uint8_t none = 0;
inline constexpr std::uint8_t quarantined = 1;      ///< breaks an invariant: never allocated from
inline constexpr std::uint8_t first_unloaded = 2;   ///< + class: its bitmap was not read yet
inline constexpr std::uint8_t first_clean = 0x40;   ///< + class, lower bank: its bitmap is right
inline constexpr std::uint8_t first_loaded = 0x80;  ///< + kind: blocks are freed by their states alone
static_assert(first_unloaded + class_count <= first_clean);

[[nodiscard]] constexpr std::uint8_t loaded(slab_kind kind) noexcept {
    return static_cast<std::uint8_t>(first_loaded + kind.index());
}
[[nodiscard]] constexpr std::uint8_t clean(unsigned class_index) noexcept {
    return static_cast<std::uint8_t>(first_clean + class_index);
}
[[nodiscard]] constexpr std::uint8_t unloaded(unsigned class_index) noexcept {
    return static_cast<std::uint8_t>(first_unloaded + class_index);
}
[[nodiscard]] constexpr bool is_dirty(std::uint8_t state) noexcept { return state >= first_loaded; }
[[nodiscard]] constexpr bool is_loaded(std::uint8_t state) noexcept { return state >= first_clean; }
[[nodiscard]] constexpr bool is_unloaded(std::uint8_t state) noexcept {
    return state >= first_unloaded && state < first_clean;
}
/// no_class: no slab, or quarantined.
[[nodiscard]] constexpr unsigned class_of(std::uint8_t state) noexcept {
    return state < first_unloaded ? no_class
           : state < first_clean  ? state - first_unloaded
                                  : state & slab_kind::class_bits;
}
[[nodiscard]] constexpr slab_kind kind_of(std::uint8_t state) noexcept {
    return slab_kind::of_index(is_dirty(state) ? state - first_loaded : state & slab_kind::class_bits);
}
}  // namespace slab_state

// A byte for each granule: what its slab was before it was morphed.
namespace morph_state {
inline constexpr std::uint8_t old_bits = 0x3f;  ///< class of older blocks that may be live, + 1; 0: none
inline constexpr std::uint8_t upper = 0x40;     ///< allocated blocks are in the upper bank
inline constexpr std::uint8_t morphed = 0x80;   ///< both halves on media may have bits

[[nodiscard]] constexpr bool has_old(std::uint8_t morph) noexcept { return (morph & old_bits) != 0; }
[[nodiscard]] constexpr slab_bank bank(std::uint8_t morph) noexcept { return bank_of((morph & upper) != 0); }
/// has_old() must be true.
[[nodiscard]] constexpr slab_kind old_kind(std::uint8_t morph) noexcept {
    return {(morph & old_bits) - 1U, bank_of((morph & upper) == 0)};
}
[[nodiscard]] constexpr std::uint8_t make(slab_bank present, unsigned old_class) noexcept {
    return static_cast<std::uint8_t>(morphed | (present == slab_bank::upper ? upper : 0) |
                                     (old_class == no_class ? 0 : old_class + 1));
}
}  // namespace morph_state

/// Whether slabs of the class may be morphed, and other slabs into it.
[[nodiscard]] constexpr bool can_morph(unsigned class_index) noexcept {
    return size_classes[class_index].block_size >= segment::least_morphed_block;
}

/// The present kind, then that of older blocks, if any.
struct slab_kinds {
    std::array<slab_kind, 2> kinds{};
    unsigned count = 0;

    [[nodiscard]] const slab_kind* begin() const noexcept { return kinds.data(); }
    [[nodiscard]] const slab_kind* end() const noexcept { return kinds.data() + count; }
};

/// What a thread takes to allocate from it alone: a half or a quarter of the slab, or all of it where a quarter would
/// be few blocks. Sizes about 512 bytes are one part, because four classes share the demand of each doubling.
///
/// Part k holds the blocks [k * count / parts, (k + 1) * count / parts).
inline constexpr unsigned most_parts = 4;
[[nodiscard]] constexpr unsigned parts_of(const size_class& size) noexcept {
    return size.block_size <= 192 || size.block_size > 1024 ? most_parts
           : size.block_size < 256 || size.block_size > 512 ? 2
                                                            : 1;
}
[[nodiscard]] constexpr std::uint32_t first_of_part(const size_class& size, unsigned part) noexcept {
    switch (parts_of(size)) {  // no division
        case 1: return part * std::uint32_t{size.block_count};
        case 2: return part * std::uint32_t{size.block_count} / 2;
        default: return part * std::uint32_t{size.block_count} / most_parts;
    }
}

struct block_range {
    std::uint32_t first = 0;
    std::uint32_t end = 0;

    [[nodiscard]] constexpr std::uint64_t bits(std::size_t word) const noexcept {
        const auto below = [word](std::uint32_t block) {
            return block >= (word + 1) * states_a_word ? ~std::uint64_t{0}
                   : block <= word * states_a_word     ? 0
                                                       : (std::uint64_t{1} << (block % states_a_word)) - 1;
        };
        return below(end) & ~below(first);
    }
    [[nodiscard]] constexpr std::size_t first_word() const noexcept { return first / states_a_word; }
    [[nodiscard]] constexpr std::size_t end_word() const noexcept { return (end + states_a_word - 1) / states_a_word; }
};
[[nodiscard]] constexpr block_range blocks_of_parts(const size_class& size, unsigned first, unsigned parts) noexcept {
    return {first_of_part(size, first), first_of_part(size, first + parts)};
}

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
