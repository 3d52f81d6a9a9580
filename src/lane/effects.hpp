// What a record does to the heap's metadata: the one place that knows where the truth about a block stands.
//
// A small block: one bit of its slab's live bitmap. A block of whole pages, and a slab: the page entry of its first
// page.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "lane/lane_format.hpp"
#include "segment/space.hpp"

namespace holdfast::lane {

/// The bits of one word on media that say whether a block is allocated.
struct block_place {
    std::uint64_t* word = nullptr;
    std::uint64_t mask = 0;  ///< of the bits in question
    std::uint64_t set = 0;   ///< their value where the block is allocated; 0 where it is free
};

/// Of a block that is known to lie in the heap.
[[nodiscard]] inline block_place place_of(const segment::space_view& space, std::uint64_t offset,
                                          block_word block) noexcept {
    if (block.kind == block_kind::small) {
        const base::granule slab = base::granule_of(base::heap_offset{offset});
        const std::uint64_t index = offset % base::granule_size / block.length;
        const std::uint64_t bit = std::uint64_t{1} << (index % 64);
        return {space.live_bitmap(slab) + index / 64, bit, bit};
    }
    const bool slab = block.kind == block_kind::slab;
    const segment::page_entry entry{slab ? segment::extent_kind::slab : segment::extent_kind::used,
                                    {slab ? base::pages_per_granule : block.length},
                                    slab ? 0 : block.type};
    return {&space.page_entry_word(base::page_of(base::heap_offset{offset})), ~std::uint64_t{0},
            segment::encode(entry)};
}

/// Bytes of user space that the block takes.
[[nodiscard]] constexpr std::uint64_t bytes_of(block_word block) noexcept {
    switch (block.kind) {
        case block_kind::small: return block.length;
        case block_kind::pages: return block.length * base::page_size;
        case block_kind::slab: return base::granule_size;
        default: return 0;
    }
}

/// The header that a slab of such blocks bears.
[[nodiscard]] constexpr segment::slab_header_on_media slab_header_for(block_word slab) noexcept {
    const auto block_size = static_cast<std::uint32_t>(slab.length);
    return {block_size, static_cast<std::uint32_t>(base::granule_size / block_size), 0, slab.type, {}};
}

/// Gives the slab at that offset its header: calls `store` with each word of it and what it is to hold.
template <class Store>
void store_slab_header(const segment::space_view& space, std::uint64_t offset, block_word slab, Store&& store) {
    constexpr std::size_t words = sizeof(segment::slab_header_on_media) / sizeof(std::uint64_t);
    const auto wanted = std::bit_cast<std::array<std::uint64_t, words>>(slab_header_for(slab));
    auto* const header =
        reinterpret_cast<std::uint64_t*>(&space.slab_header(base::granule_of(base::heap_offset{offset})));
    for (std::size_t i = 0; i < words; ++i) {
        store(header[i], wanted[i]);
    }
}

// LANE-22: what a record allocates or frees is a block that can exist: below the frontier, of a known kind, at a
// multiple of its size within its granule, or at a page.
[[nodiscard]] constexpr bool is_possible_block(std::uint64_t offset, block_word block,
                                               std::uint64_t frontier) noexcept {
    const std::uint64_t bytes = bytes_of(block);
    if (offset >= frontier || offset < base::granule_size || block.length == 0 || block.length > frontier ||
        bytes > frontier - offset) {
        return false;
    }
    switch (block.kind) {
        case block_kind::small: {
            const std::uint64_t within = offset % base::granule_size;
            return block.length >= 8 && block.length < base::granule_size && block.length % 8 == 0 &&
                   within % block.length == 0 && within + block.length <= base::granule_size;
        }
        case block_kind::pages: return offset % base::page_size == 0;
        case block_kind::slab:
            return offset % base::granule_size == 0 && block.length >= 8 && block.length < base::granule_size &&
                   block.length % 8 == 0;
        default: return false;
    }
}

// LANE-23: a destination is an aligned word below the frontier.
[[nodiscard]] constexpr bool is_possible_destination(std::uint64_t offset, std::uint64_t frontier) noexcept {
    return offset % sizeof(std::uint64_t) == 0 && offset < frontier;
}

}  // namespace holdfast::lane
