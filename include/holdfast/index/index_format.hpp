// An ordered_index on media (docs/indexes.md, "Layout on media"): the head, which is the named object, and the leaves.
// All words have 8 bytes, little endian. A leaf consists of cells: entries on both sides of a word H that says which of
// them are there. A record holds four words side by side, so an entry and H are one record where key and value have one
// word each:
//
//     key and value of one word:  [ k0 v0 k1 H v1 k2 v2 ]  three entries
//     one word in all:            [ e0 e1 e2 H e3 e4 e5 ]  six entries
//     more:                       [ entry 0 | H | entry 1 ]
//
// An entry is live if its bit in H is set and its key is smaller than the low key of the next leaf.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast::detail {

inline constexpr std::uint64_t index_magic = 0x31'78'64'69'64'6c'6f'68U;  // "holdidx1"
inline constexpr std::uint64_t index_leaf_magic = 0x6661'656cU;           // "leaf"

struct index_shape {
    std::uint64_t key_words = 1;
    std::uint64_t value_words = 1;
    bool key_is_block = false;
    bool value_is_block = false;
    std::uint64_t key_bytes = 0;    ///< of an inline key; 0 for blocks
    std::uint64_t value_bytes = 0;  ///< of an inline value; 0 for blocks
    bool by_hash = false;           ///< hashes of the keys order the leaves
};

/// Pointers are `ptr` words. Only transactions change it.
struct index_head_on_media {
    std::uint64_t magic = index_magic;
    std::uint64_t shape = 0;    ///< encode(index_shape); 0: no leaf was made yet
    std::uint64_t first = 0;    ///< the leaf with the smallest keys
    std::uint64_t last = 0;     ///< a hint, as are the `previous` words of leaves
    std::uint64_t retired = 0;  ///< leaves without live entries, linked by `next`
    std::uint64_t cleared = 0;  ///< a chain of leaves to be freed
    /// 1: it was open in durability `collect`, with texts as keys. A kill may have cut a split off before it cleared
    /// the bits of moved entries; the next open does.
    std::uint64_t may_have_dead_texts = 0;
    std::uint64_t seed = 0;  ///< the secret of a hash index's hash, if `shape` says so
};
static_assert(sizeof(index_head_on_media) == 64);
static_assert(offsetof(index_head_on_media, first) == 16);
static_assert(offsetof(index_head_on_media, cleared) == 40);
static_assert(offsetof(index_head_on_media, may_have_dead_texts) == 48);
static_assert(offsetof(index_head_on_media, seed) == 56);

/// Bits 0..15 key bytes, 16..31 value bytes, 32 key is a block, 33 value is a block, 34 by hash, 63 set.
[[nodiscard]] constexpr std::uint64_t encode(const index_shape& shape) noexcept {
    return shape.key_bytes | shape.value_bytes << 16U | std::uint64_t{shape.key_is_block} << 32U |
           std::uint64_t{shape.value_is_block} << 33U | std::uint64_t{shape.by_hash} << 34U | std::uint64_t{1} << 63U;
}

struct index_text_on_media {
    std::uint64_t length;
    char bytes[1];
};
inline constexpr std::size_t index_text_header = sizeof(std::uint64_t);
static_assert(offsetof(index_text_on_media, bytes) == index_text_header);

/// Beside the bits of encode(): the hash has a secret, of which bits 36..59 tell a damaged one. Older hash indexes have
/// none.
inline constexpr std::uint64_t index_has_seed = std::uint64_t{1} << 35U;
[[nodiscard]] constexpr std::uint64_t with_seed(std::uint64_t shape, std::uint64_t seed) noexcept {
    constexpr std::uint64_t multiplier = 0x9E3779B97F4A7C15U;
    return shape | index_has_seed | (seed ^ seed >> 32U) * multiplier >> 40U << 36U;
}

// Words of a leaf before its cells.
inline constexpr std::size_t leaf_kind = 0;      ///< index_leaf_magic | has_low << 32
inline constexpr std::size_t leaf_next = 1;      ///< `ptr` word: the leaf with the next larger keys
inline constexpr std::size_t leaf_previous = 2;  ///< `ptr` word
inline constexpr std::size_t leaf_low = 3;       ///< the low key or low hash: none here is smaller
inline constexpr std::uint64_t leaf_has_low = std::uint64_t{1} << 32U;

// H: bit i says that entry i of the cell is there; byte 1 + i is its fingerprint.
[[nodiscard]] constexpr std::uint64_t with_entry(std::uint64_t header, std::size_t entry, std::uint8_t print) noexcept {
    const std::size_t shift = 8 * (entry + 1);
    return (header & ~(std::uint64_t{0xff} << shift)) | std::uint64_t{print} << shift | std::uint64_t{1} << entry;
}
[[nodiscard]] constexpr std::uint64_t without_entry(std::uint64_t header, std::size_t entry) noexcept {
    return header & ~(std::uint64_t{0xff} << (8 * (entry + 1))) & ~(std::uint64_t{1} << entry);
}
[[nodiscard]] constexpr bool has_entry(std::uint64_t header, std::size_t entry) noexcept {
    return (header >> entry & 1U) != 0;
}
[[nodiscard]] constexpr std::uint8_t print_of(std::uint64_t header, std::size_t entry) noexcept {
    return static_cast<std::uint8_t>(header >> (8 * (entry + 1)));
}

template <std::size_t KeyWords, std::size_t ValueWords, std::size_t LowWords>
struct leaf_layout {
    static constexpr std::size_t key_words = KeyWords;
    static constexpr std::size_t value_words = ValueWords;
    static constexpr std::size_t entry_words = KeyWords + ValueWords;
    static constexpr std::size_t per_cell = entry_words == 1 ? 6 : entry_words == 2 ? 3 : 2;
    static constexpr std::size_t cell_words = per_cell * entry_words + 1;
    static constexpr std::size_t first_cell = leaf_low + LowWords;
    static constexpr std::size_t usual_words = 256;  ///< 2 KiB: 32 leaves fill a slab
    static constexpr std::size_t most_slots = 128;
    static constexpr std::size_t cells = [] {
        const std::size_t fitting = (usual_words - first_cell) / cell_words;
        const std::size_t at_least = 8;
        const std::size_t wanted = fitting < at_least ? at_least : fitting;
        return wanted * per_cell > most_slots ? most_slots / per_cell : wanted;
    }();
    static constexpr std::size_t slots = cells * per_cell;
    static constexpr std::size_t words = first_cell + cells * cell_words;
    static constexpr std::size_t bytes = words * sizeof(std::uint64_t);

    [[nodiscard]] static constexpr std::size_t cell_of(std::size_t slot) noexcept { return slot / per_cell; }
    /// Where an entry with this fingerprint lies if there was room: its line can be fetched with the fingerprints.
    [[nodiscard]] static constexpr std::size_t likely_cell(std::uint8_t print) noexcept { return print * cells / 256; }
    [[nodiscard]] static constexpr std::size_t entry_of(std::size_t slot) noexcept { return slot % per_cell; }
    [[nodiscard]] static constexpr std::size_t header_of(std::size_t cell) noexcept {
        return first_cell + cell * cell_words + header_within;
    }
    [[nodiscard]] static constexpr std::size_t word_of(std::size_t slot, std::size_t i) noexcept {
        if constexpr (entry_words <= longest_in_table) {
            return places[slot][i];
        } else {
            return place_of(slot, i);
        }
    }

    static constexpr std::size_t header_within = per_cell * entry_words / 2;

private:
    [[nodiscard]] static constexpr std::size_t place_of(std::size_t slot, std::size_t i) noexcept {
        const std::size_t within = entry_of(slot) * entry_words + i;
        return first_cell + cell_of(slot) * cell_words + within + (within >= header_within ? 1 : 0);
    }
    // A scan computes a place for each word that it reads.
    static constexpr std::size_t longest_in_table = 2;
    using table = std::array<std::array<std::uint16_t, entry_words>, entry_words <= longest_in_table ? slots : 0>;
    static constexpr table places = [] {
        table made{};
        for (std::size_t slot = 0; slot < made.size(); ++slot) {
            for (std::size_t i = 0; i < entry_words; ++i) {
                const std::size_t within = slot % per_cell * entry_words + i;
                const std::size_t header = within >= per_cell * entry_words / 2 ? 1 : 0;
                made[slot][i] = static_cast<std::uint16_t>(first_cell + slot / per_cell * cell_words + within + header);
            }
        }
        return made;
    }();
};
static_assert(leaf_layout<1, 1, 1>::words == 256 && leaf_layout<1, 1, 1>::slots == 108);
static_assert(leaf_layout<1, 1, 1>::word_of(1, 0) + 1 == leaf_layout<1, 1, 1>::header_of(0));
static_assert(leaf_layout<1, 1, 1>::word_of(1, 1) - 1 == leaf_layout<1, 1, 1>::header_of(0));

}  // namespace holdfast::detail
