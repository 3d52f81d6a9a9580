// The invariants of slabs: each one function, shared by open, load, check() and the tests.
//
// SLAB-1 to SLAB-4 and SLAB-11 speak of media alone; SLAB-5 to SLAB-10, and SLAB-12 (remote_frees.hpp), of media and
// its volatile twins, while all threads stand still.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/failure.hpp"
#include "base/units.hpp"
#include "segment/segment_format.hpp"
#include "slab/size_classes.hpp"
#include "slab/slab_table.hpp"

namespace holdfast::slab {

// SLAB-1: the block size in a slab's header is that of a size class.
[[nodiscard]] constexpr bool has_known_class(const segment::slab_header_on_media& header) noexcept {
    return class_of_block_size(header.block_size) != no_class;
}

// SLAB-2: the block count in a slab's header is the number of whole blocks in a granule.
[[nodiscard]] constexpr bool has_right_count(const segment::slab_header_on_media& header) noexcept {
    return header.block_size != 0 && header.block_count == base::granule_size / header.block_size;
}

// SLAB-3: flags and reserved fields of a slab's header are zero.
[[nodiscard]] constexpr bool has_no_flags(const segment::slab_header_on_media& header) noexcept {
    return header.flags == 0 && std::ranges::all_of(header.reserved, [](std::uint64_t field) { return field == 0; });
}

// SLAB-4: the bits of a live bitmap beyond the slab's blocks are zero; where there is no slab, all are.
[[nodiscard]] inline bool has_clean_bitmap(const slab_table& table, base::granule of, const size_class* kind) noexcept {
    for (std::size_t word = 0; word < bitmap_words; ++word) {
        const std::uint64_t valid = kind == nullptr ? 0 : valid_bits(*kind, word);
        if ((table.live_word(of, word).load(std::memory_order_relaxed) & ~valid) != 0) {
            return false;
        }
    }
    return true;
}

// SLAB-11: the type number in a slab's header is below the limit of type numbers.
[[nodiscard]] constexpr bool has_possible_type(const segment::slab_header_on_media& header) noexcept {
    return header.type < segment::type_limit;
}

[[nodiscard]] constexpr bool is_sound(const segment::slab_header_on_media& header) noexcept {
    return has_known_class(header) && has_right_count(header) && has_no_flags(header) && has_possible_type(header);
}

/// The failure that names what is wrong with the header of the slab in this granule; nothing where it is sound.
[[nodiscard]] std::optional<base::failure> header_fault(const segment::slab_header_on_media& header, base::granule of);

}  // namespace holdfast::slab
