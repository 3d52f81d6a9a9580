// LMDB's data file of versions 0.9 and 1.0, as 64-bit little-endian machines write it. From its documentation and from
// files that liblmdb wrote; docs/store.md has the tables.
//
// A file is a row of pages of one size, a power of two up to 65536. Pages 0 and 1 are meta pages; the one with the
// greater transaction number holds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace holdfast_lmdb_file {

using bytes = std::span<const std::byte>;

inline constexpr std::uint32_t magic = 0xBEEFC0DE;
inline constexpr std::uint32_t version_of_0_9 = 1;
inline constexpr std::uint32_t version_before_1_0 = 2;
inline constexpr std::uint32_t version_of_1_0 = 3;
inline constexpr std::uint64_t no_page = ~std::uint64_t{0};
inline constexpr std::uint64_t first_data_page = 2;
inline constexpr std::size_t greatest_page_size = 65536;
inline constexpr unsigned greatest_depth = 32;

/// A page begins with: page number u64, from version 2 on its transaction's number u64, pad u16 (size of a key of kind
/// leaf2), flags u16, lower u16, upper u16. An overflow page has one u32 in place of the last two: how many pages it
/// takes.
inline constexpr std::size_t page_header = 16;
inline constexpr std::size_t page_header_of_1_0 = 24;

struct layout {
    std::uint32_t version;
    std::size_t least_page_size;
    std::size_t header;
    std::size_t base;        ///< the byte of a page from which bounds and slots count
    std::size_t big_record;  ///< of a node whose data is in an overflow page: its number u64, and from version 2 on a
                             ///< transaction number u64 and how many pages it takes u64
    bool even_data;          ///< the data of a node begin at an even offset
};
inline constexpr std::array<layout, 3> layouts{{
    {version_of_0_9, 512, page_header, 0, 8, false},
    {version_before_1_0, 256, page_header_of_1_0, page_header_of_1_0, 24, false},
    {version_of_1_0, 256, page_header_of_1_0, page_header_of_1_0, 24, true},
}};
namespace page_flag {
inline constexpr unsigned branch = 0x01;
inline constexpr unsigned leaf = 0x02;
inline constexpr unsigned overflow = 0x04;
inline constexpr unsigned meta = 0x08;
inline constexpr unsigned dirty = 0x10;  ///< in version 1, without meaning on media
inline constexpr unsigned leaf2 = 0x20;  ///< keys of one size, without nodes
inline constexpr unsigned subpage = 0x40;
}  // namespace page_flag

/// A node: u16 low and u16 high of the data's size (in branches: of the child's number, whose top is in the flags),
/// flags u16, size of the key u16; then key and data. It lies at an even offset.
inline constexpr std::size_t node_header = 8;
namespace node_flag {
inline constexpr unsigned big = 0x01;          ///< the data is in an overflow page
inline constexpr unsigned subdatabase = 0x02;  ///< the data is a tree's record
inline constexpr unsigned duplicates = 0x04;   ///< with `subdatabase`: a tree of duplicates, else a page of them
}  // namespace node_flag

/// As in mdb_dbi_open().
namespace database_flag {
inline constexpr unsigned reverse_key = 0x02;
inline constexpr unsigned duplicates = 0x04;
inline constexpr unsigned integer_key = 0x08;
inline constexpr unsigned fixed = 0x10;
inline constexpr unsigned integer_duplicates = 0x20;
inline constexpr unsigned reverse_duplicates = 0x40;
inline constexpr unsigned all = 0x7E;
}  // namespace database_flag

/// 48 bytes: pad u32, flags u16, depth u16, then u64 each: branch pages, leaf pages, overflow pages, items, number of
/// the root.
inline constexpr std::size_t tree_record = 48;
struct tree {
    std::uint32_t pad = 0;  ///< the size of a page, in the tree of free pages; else that of a fixed duplicate
    std::uint16_t flags = 0;
    std::uint16_t depth = 0;
    std::uint64_t branch_pages = 0;
    std::uint64_t leaf_pages = 0;
    std::uint64_t overflow_pages = 0;
    std::uint64_t items = 0;
    std::uint64_t root = no_page;
};

/// An encrypted file has this flag in the tree of free pages of the meta page.
inline constexpr unsigned encrypted = 0x2000;

/// Behind the header of a meta page: magic u32, version u32, address u64, size of the map u64, the trees of free pages
/// and of the unnamed database, the last page's number u64, the transaction's number u64. From version 2 on the last
/// two bytes of page 0 say how many bytes a checksum has; it ends each page that is not a meta page, and the last page
/// of an overflow.
inline constexpr std::size_t meta_size = 24 + 2 * tree_record + 16;
struct meta {
    std::uint64_t map_size = 0;
    tree free_pages;
    tree main;
    std::uint64_t last_page = 0;
    std::uint64_t transaction = 0;
};

/// The file is not one of LMDB 0.9 or 1.0, is damaged, or cannot be read or written.
class file_error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};
/// The file is of another version, or encrypted, and sound as far as it is read.
class unsupported_file : public file_error {
public:
    using file_error::file_error;
};

/// The integer must lie inside.
template <class T>
[[nodiscard]] T load(bytes from, std::size_t at) {
    T value{};
    std::memcpy(&value, from.data() + at, sizeof(T));
    return value;
}
template <class T>
void store(std::span<std::byte> to, std::size_t at, T value) {
    std::memcpy(to.data() + at, &value, sizeof(T));
}

/// The version need not be one of `layouts`.
struct claimed_version {
    std::uint32_t version;
    std::size_t header;  ///< where the magic number was
};
inline constexpr std::size_t head_of_meta = page_header_of_1_0 + 8;
[[nodiscard]] inline std::optional<claimed_version> version_of(bytes page) {
    for (const std::size_t header : {page_header, page_header_of_1_0}) {
        if (page.size() >= header + 8 && load<std::uint32_t>(page, header) == magic) {
            return claimed_version{load<std::uint32_t>(page, header + 4), header};
        }
    }
    return std::nullopt;
}
/// Null: none has such a header.
[[nodiscard]] inline const layout* layout_of(const claimed_version& claimed) noexcept {
    for (const layout& one : layouts) {
        if (one.version == claimed.version && one.header == claimed.header) {
            return &one;
        }
    }
    return nullptr;
}

[[nodiscard]] inline tree load_tree(bytes from) {
    return {load<std::uint32_t>(from, 0),  load<std::uint16_t>(from, 4),  load<std::uint16_t>(from, 6),
            load<std::uint64_t>(from, 8),  load<std::uint64_t>(from, 16), load<std::uint64_t>(from, 24),
            load<std::uint64_t>(from, 32), load<std::uint64_t>(from, 40)};
}
inline void store_tree(std::span<std::byte> to, const tree& from) {
    store(to, 0, from.pad);
    store(to, 4, from.flags);
    store(to, 6, from.depth);
    store(to, 8, from.branch_pages);
    store(to, 16, from.leaf_pages);
    store(to, 24, from.overflow_pages);
    store(to, 32, from.items);
    store(to, 40, from.root);
}

[[nodiscard]] inline std::string_view text_of(bytes of) noexcept {
    return {reinterpret_cast<const char*>(of.data()), of.size()};
}
[[nodiscard]] inline bytes bytes_of(std::string_view text) noexcept {
    return std::as_bytes(std::span(text.data(), text.size()));
}

/// Of a node's data with header and key: two nodes must fit in a page.
[[nodiscard]] constexpr std::size_t largest_node(std::size_t page_size) noexcept {
    return (((page_size - page_header) / 2) & ~std::size_t{1}) - 2;
}

}  // namespace holdfast_lmdb_file
