// The invariants of slabs: each one function, for open, load, check() and the tests. SLAB-1 to SLAB-4, SLAB-11, SLAB-12
// and SLAB-15 speak of media alone; the others (SLAB-14: remote_frees.hpp) of volatile tables, too, while all threads
// stand still.
#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "base/result.hpp"
#include "base/units.hpp"
#include "segment/format/heap_format.hpp"
#include "slab/classes/size_classes.hpp"
#include "slab/pool/slab_table.hpp"

namespace holdfast::slab {

// SLAB-1: the block size in a slab's header is that of a size class.
[[nodiscard]] constexpr bool has_known_class(const segment::slab_header_on_media& header) noexcept {
    return class_of_block_size(header.block_size) != no_class;
}

// SLAB-2: the block count in a slab's header is the number of whole blocks in a granule.
[[nodiscard]] constexpr bool has_right_count(const segment::slab_header_on_media& header) noexcept {
    return header.block_size != 0 && header.block_count == base::granule_size / header.block_size;
}

/// Whether it has older blocks, or its bits in the upper half of its bitmap.
[[nodiscard]] constexpr bool is_morphed(const segment::slab_header_on_media& header) noexcept {
    return (header.flags & ~segment::slab_flag_may_have_holes) != 0;
}

// SLAB-3: reserved fields of a slab's header are zero. So are its flags, unless the slab was morphed or may have holes;
// such a slab has no type. In a morphed slab, half a bitmap is enough for its present and for its older blocks. The two
// classes are equal where a crash came between a morph's stores of the flags and of the class.
[[nodiscard]] constexpr bool has_possible_flags(const segment::slab_header_on_media& header) noexcept {
    const segment::slab_flags flags = segment::decode_slab_flags(header.flags);
    const bool known = segment::encode(flags) == header.flags && (header.flags == 0 || header.type == 0);
    const bool halves = header.block_size >= segment::least_morphed_block &&
                        (flags.old_block_size == 0 || (flags.old_block_size >= segment::least_morphed_block &&
                                                       class_of_block_size(flags.old_block_size) != no_class));
    return known && (!is_morphed(header) || halves) &&
           std::ranges::all_of(header.reserved, [](std::uint64_t field) { return field == 0; });
}

[[nodiscard]] constexpr std::uint8_t morph_state_of(const segment::slab_header_on_media& header) noexcept {
    if (!is_morphed(header)) {
        return 0;
    }
    const segment::slab_flags flags = segment::decode_slab_flags(header.flags);
    const bool half_way = flags.old_block_size == header.block_size;
    return morph_state::make(bank_of(flags.upper_half != half_way), flags.old_block_size == 0 || half_way
                                                                        ? no_class
                                                                        : class_of_block_size(flags.old_block_size));
}

// SLAB-4: the bits of a live bitmap that stand for no block are zero; where there is no slab, all bits are. The bitmap
// of a morphed slab in use may have bits of any class that it had since the last commit or checkpoint; the next one
// writes both halves.
[[nodiscard]] inline bool has_clean_bitmap(const slab_table& table, base::granule of) noexcept {
    const std::uint8_t state = table.state(of);
    const std::uint8_t morph = table.morph_state(of);
    if (morph != 0 && slab_state::is_loaded(state)) {
        return true;
    }
    std::array<std::uint64_t, bitmap_words> valid{};
    for (const slab_kind kind : table.kinds_in(of, state)) {
        for (std::size_t word = 0; word < kind.words(); ++word) {
            valid[kind.first_word() + word] = valid_bits(kind.size(), word);
        }
    }
    for (std::size_t word = 0; word < bitmap_words; ++word) {
        if ((table.live_word(of, word).load(std::memory_order_relaxed) & ~valid[word]) != 0) {
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
    return has_known_class(header) && has_right_count(header) && has_possible_flags(header) &&
           has_possible_type(header);
}

// SLAB-12: no live block of a morphed slab overlaps an older live block.
[[nodiscard]] bool has_disjoint_blocks(const slab_table& table, base::granule of) noexcept;

// SLAB-13: in a loaded morphed slab, a block that overlaps an older block is free only if that is.
[[nodiscard]] bool overlapped_are_taken(const slab_table& table, base::granule of) noexcept;

// SLAB-15: in a heap that separates cache lines, present and older blocks of slabs are whole lines.
[[nodiscard]] constexpr bool has_whole_lines(const segment::slab_header_on_media& header) noexcept {
    return header.block_size % base::cache_line_size == 0 &&
           segment::decode_slab_flags(header.flags).old_block_size % base::cache_line_size == 0;
}

/// Nothing where it is sound.
[[nodiscard]] std::optional<base::failure> header_fault(const segment::slab_header_on_media& header, base::granule of);

}  // namespace holdfast::slab
