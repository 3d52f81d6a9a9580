// A segment's metadata on media (docs/format.md, section "segment"). Little endian.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.hpp"

namespace holdfast::segment {

enum class extent_kind : std::uint8_t {
    none = 0,  ///< inside an extent, or beyond the frontier
    free = 1,
    used = 2,  ///< one block
    slab = 3,
    roots = 4,     ///< 512 roots, the rest unused
    reserved = 5,  ///< taken and not published: free after a crash
};

/// 0: none.
inline constexpr unsigned type_bits = 20;
inline constexpr std::uint32_t type_limit = std::uint32_t{1} << type_bits;

/// One word, so that an extent appears, grows or vanishes with a single store: bits 0..39 length in pages; bits 40..43
/// kind; bits 44..63 the type number of a used block, else zero. Entries inside an extent mean nothing.
struct page_entry {
    extent_kind kind = extent_kind::none;
    base::pages length{};
    std::uint32_t type = 0;  ///< below type_limit
    constexpr bool operator==(const page_entry&) const = default;
};

inline constexpr unsigned page_entry_length_bits = 40;
inline constexpr unsigned page_entry_type_shift = page_entry_length_bits + 4;
static_assert(page_entry_type_shift + type_bits == 64);
inline constexpr std::uint64_t page_entry_length_mask = (std::uint64_t{1} << page_entry_length_bits) - 1;

[[nodiscard]] constexpr std::uint64_t encode(page_entry entry) noexcept {
    return (entry.length.value & page_entry_length_mask) |
           (static_cast<std::uint64_t>(entry.kind) << page_entry_length_bits) |
           (std::uint64_t{entry.type} << page_entry_type_shift);
}
/// Valid iff encode(decode(word)) == word and the kind is known.
[[nodiscard]] constexpr page_entry decode_page_entry(std::uint64_t word) noexcept {
    return {static_cast<extent_kind>((word >> page_entry_length_bits) & 0xf),
            {word & page_entry_length_mask},
            static_cast<std::uint32_t>(word >> page_entry_type_shift)};
}
[[nodiscard]] constexpr bool is_valid_page_entry(std::uint64_t word) noexcept {
    const page_entry entry = decode_page_entry(word);
    return entry.kind <= extent_kind::reserved && (entry.type == 0 || entry.kind == extent_kind::used);
}

/// Meaningful iff the page entry of its first page has kind slab.
struct slab_header_on_media {
    std::uint32_t block_size;   ///< bytes; a size class
    std::uint32_t block_count;  ///< granule_size / block_size
    std::uint64_t flags;
    std::uint64_t type;  ///< of all blocks, below type_limit; 0: none
    std::uint64_t reserved[5];
};
static_assert(sizeof(slab_header_on_media) == 64);
static_assert(offsetof(slab_header_on_media, flags) == 8);
static_assert(alignof(slab_header_on_media) == 8);

/// Bit 0: upper_half; bit 1: may_have_holes; bits 16..31: old_block_size.
struct slab_flags {
    bool upper_half = false;           ///< its blocks' bits lie in the upper half of the live bitmap
    std::uint32_t old_block_size = 0;  ///< of older blocks, with bits in the other half; 0: none
    bool may_have_holes = false;       ///< pages without a live block may lack space on disk
};
inline constexpr unsigned old_block_size_shift = 16;
inline constexpr std::uint64_t slab_flag_may_have_holes = 2;
[[nodiscard]] constexpr std::uint64_t encode(slab_flags flags) noexcept {
    return (flags.upper_half ? 1U : 0U) | (flags.may_have_holes ? slab_flag_may_have_holes : 0) |
           std::uint64_t{flags.old_block_size} << old_block_size_shift;
}
[[nodiscard]] constexpr slab_flags decode_slab_flags(std::uint64_t word) noexcept {
    return {(word & 1) != 0, static_cast<std::uint32_t>(word >> old_block_size_shift) & 0xffff,
            (word & slab_flag_may_have_holes) != 0};
}
inline constexpr std::uint64_t upper_bitmap_word = base::granule_size / 8 / 64 / 2;
/// Bytes. Slabs of smaller blocks need the whole bitmap.
inline constexpr std::uint32_t least_morphed_block = 16;

}  // namespace holdfast::segment
