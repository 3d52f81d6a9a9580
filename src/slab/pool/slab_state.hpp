// A byte for each granule, and a byte for what its slab was before a morph.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "segment/format/segment_format.hpp"
#include "slab/classes/size_classes.hpp"
#include "slab/classes/slab_kind.hpp"

namespace holdfast::slab {

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

}  // namespace holdfast::slab
