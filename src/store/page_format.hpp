// Pages of a store as they lie in the file (docs/store-format.md).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace holdfast::store_engine {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::size_t page_size = 4096;
inline constexpr unsigned max_depth = 24;  ///< of a tree; 2^48 pages need far less
/// The main database holds named ones, these the values of keys: no tree lies deeper.
inline constexpr unsigned most_nested = 2;
inline constexpr std::uint64_t max_pages = std::uint64_t{1} << 48U;

enum class page_kind : std::uint8_t { none = 0, branch = 1, leaf = 2, packed = 3, run = 4 };

/// Entries in order: a page behind its header, or the value of a key that has a few values. Slots, the nodes' offsets
/// in the order of keys, grow upward from the header, nodes downward from the end; a removed node is garbage until the
/// block is compacted. A packed block has no slots, but items from the header on.
struct block_header {
    page_kind kind;
    std::uint8_t has_long_keys;  ///< whether a node may have one: 1 or 0
    std::uint16_t count;         ///< entries
    std::uint16_t upper;         ///< offset of the lowest node, from this header; packed: the capacity
    std::uint16_t capacity;      ///< bytes, with this header
    std::uint16_t item_size;     ///< packed: bytes of an item; else 0
    std::uint16_t garbage;       ///< bytes of removed nodes
};
static_assert(sizeof(block_header) == 12 && alignof(block_header) == 2);

/// Of every page, and of a run that holds one long value.
struct page_header {
    std::uint64_t birth;       ///< the transaction that wrote the page
    std::uint32_t checksum;    ///< page_checksum(); while dirty: place among dirty pages
    std::uint32_t generation;  ///< which of nested transactions wrote it; means nothing after the commit
    std::uint32_t run_pages;   ///< of the run; 1
    block_header block;        ///< run: kind only
};
static_assert(sizeof(page_header) == 32 && offsetof(page_header, block) == 20);

inline constexpr std::size_t block_capacity = page_size - offsetof(page_header, block);
inline constexpr std::size_t run_header_size = sizeof(page_header);

/// This, the key, a byte of padding where the key's size is odd, the value.
struct leaf_node {
    std::uint16_t key_and_flags;  ///< 13 bits of size, 3 of flags
    std::uint16_t value_size;
};
inline constexpr std::uint16_t key_size_mask = 0x1FFF;
inline constexpr std::uint16_t node_is_long = 0x2000;
inline constexpr std::uint16_t node_is_tree = 0x4000;
inline constexpr std::uint16_t node_has_many = 0x8000;  ///< a block, or with node_is_tree a tree
inline constexpr std::uint16_t node_flags_mask = 0xE000;
/// In place of a key's size: the node has a long_key.
inline constexpr std::uint16_t long_key_in_leaf = key_size_mask;
inline constexpr std::uint16_t long_key_in_branch = 0xFFFF;

/// This, and the key. That of entry 0 is empty: below all others.
struct branch_node {
    std::uint16_t key_size;
    std::uint16_t child[3];  ///< page number, low part first
};
static_assert(sizeof(leaf_node) == 4 && sizeof(branch_node) == 8);

/// Pages of its own, behind the header of the first.
struct long_value {
    std::uint64_t page;
    std::uint64_t size;  ///< bytes
};

/// In the node of a key that is too long for it; the key lies in a run of its own.
struct long_key {
    std::array<char, 48> head;  ///< decides most comparisons
    long_value where;
};

/// Of the main database, a named one, or the many values of one key.
struct tree_record {
    std::uint64_t root;  ///< page number; 0: the tree is empty
    std::uint64_t entries;
    std::uint64_t branch_pages;
    std::uint64_t leaf_pages;
    std::uint64_t long_pages;  ///< of long values and long keys
    std::uint16_t flags;       ///< MDB_DUPSORT and kin
    std::uint16_t depth;       ///< 0: empty
    std::uint32_t item_size;   ///< of packed pages
};
static_assert(sizeof(long_value) == 16 && sizeof(long_key) == 64 && sizeof(tree_record) == 48);

/// Of a node with its slot: two fit in a page.
inline constexpr std::size_t max_node = (block_capacity - sizeof(block_header)) / 2 / 2 * 2;
/// Of a key in a node, and of any key.
inline constexpr std::size_t max_key = max_node - sizeof(leaf_node) - sizeof(tree_record) - 2;
inline constexpr std::size_t max_long_key = 65536;
/// Up to this size a branch has the part of a long key that tells two leaves apart, and so stays wide.
inline constexpr std::size_t max_short_separator = 512;
static_assert(max_node == 2032 && max_key == 1978 && max_short_separator <= max_key);

}  // namespace holdfast::store_engine
