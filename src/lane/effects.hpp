// Media say in one place whether a block is allocated: for a small block in the live bitmap, for a block of whole pages
// and for a slab in the page entry of its first page.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "lane/lane_format.hpp"
#include "segment/format/space.hpp"

namespace holdfast::lane {

struct block_place {
    std::uint64_t* word = nullptr;
    std::uint64_t mask = 0;
    std::uint64_t set = 0;  ///< a free block has 0
};

[[nodiscard]] inline block_place place_of(const segment::space_view& space, std::uint64_t offset,
                                          block_word block) noexcept {
    if (block.kind == block_kind::small) {
        const base::granule slab = base::granule_of(base::heap_offset{offset});
        const std::uint64_t index = offset % base::granule_size / block.length;
        const std::uint64_t bit = std::uint64_t{1} << (index % 64);
        return {space.live_bitmap(slab) + (block.upper ? segment::upper_bitmap_word : 0) + index / 64, bit, bit};
    }
    const bool slab = block.kind == block_kind::slab;
    const segment::page_entry entry{slab ? segment::extent_kind::slab : segment::extent_kind::used,
                                    {slab ? base::pages_per_granule : block.length},
                                    slab ? 0 : block.type};
    return {&space.page_entry_word(base::page_of(base::heap_offset{offset})), ~std::uint64_t{0},
            segment::encode(entry)};
}

[[nodiscard]] constexpr std::uint64_t bytes_of(block_word block) noexcept {
    switch (block.kind) {
        case block_kind::small: return block.length;
        case block_kind::pages: return block.length * base::page_size;
        case block_kind::slab: return base::granule_size;
        default: return 0;
    }
}

/// `old`: the slab that was morphed into it, or nothing.
[[nodiscard]] constexpr segment::slab_header_on_media slab_header_for(block_word slab, block_word old = {}) noexcept {
    const auto block_size = static_cast<std::uint32_t>(slab.length);
    const bool morphed = old.kind == block_kind::slab;
    return {block_size,
            static_cast<std::uint32_t>(base::granule_size / block_size),
            segment::encode(segment::slab_flags{slab.upper, static_cast<std::uint32_t>(morphed ? old.length : 0)}),
            slab.type,
            {}};
}

[[nodiscard]] constexpr block_word morphed_from(const record_on_media& record) noexcept {
    const block_word old = decode_block(record.freed_block);
    return record.freed == record.allocated && old.kind == block_kind::slab ? old : block_word{};
}

template <class Store>
void store_slab_header(const segment::space_view& space, std::uint64_t offset, block_word slab, block_word old,
                       Store&& store) {
    constexpr std::size_t words = sizeof(segment::slab_header_on_media) / sizeof(std::uint64_t);
    const auto wanted = std::bit_cast<std::array<std::uint64_t, words>>(slab_header_for(slab, old));
    auto* const header =
        reinterpret_cast<std::uint64_t*>(&space.slab_header(base::granule_of(base::heap_offset{offset})));
    for (std::size_t i = 0; i < words; ++i) {
        store(header[i], wanted[i]);
    }
}

/// The flags alone leave the meaning of the header as it was (SLAB-3). One store of another word in the line changes
/// the rest.
template <class Store>
void switch_slab_header(const segment::space_view& space, std::uint64_t offset, block_word slab, block_word old,
                        Store&& store) {
    const segment::slab_header_on_media wanted = slab_header_for(slab, old);
    auto* const header =
        reinterpret_cast<std::uint64_t*>(&space.slab_header(base::granule_of(base::heap_offset{offset})));
    store(header[1], wanted.flags);
    store(header[0], std::bit_cast<std::array<std::uint64_t, sizeof wanted / 8>>(wanted)[0]);
}

// LANE-22: a record names only blocks that can exist: below the frontier, of a known kind, at a multiple of their size
//   within their granule or, for whole pages, at a page. If a slab uses the upper half of its bitmap, that half has a
//   bit for each of its blocks.
[[nodiscard]] constexpr bool is_possible_block(std::uint64_t offset, block_word block,
                                               std::uint64_t frontier) noexcept {
    const std::uint64_t bytes = bytes_of(block);
    if (offset >= frontier || offset < base::granule_size || block.length == 0 || block.length > frontier ||
        bytes > frontier - offset) {
        return false;
    }
    if (block.upper && block.length < segment::least_morphed_block) {
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
