// What lies in a store's file besides pages: metas, the log's records, the list of free pages (docs/store-format.md).
#pragma once

#include <array>

#include "store/page_format.hpp"

namespace holdfast::store_engine {

inline constexpr std::array<char, 8> store_magic = {'H', 'F', 'S', 'T', 'O', 'R', 'E', '\n'};
/// In its place while the first meta is being made on persistent memory, where words become durable in any order. A
/// file that begins with it, and is zeros behind that meta, is made anew.
inline constexpr std::array<char, 8> magic_in_the_making = {'H', 'F', 'S', 'T', 'O', 'R', 'E', '?'};
/// Programs that know version 7 alone must not read long keys: a store has version 8 from its first one on. Versions 1
/// to 6 had records of another form.
inline constexpr std::uint32_t version_without_long_keys = 7;
inline constexpr std::uint32_t store_version = 8;
/// The heap says which commits count: no program must open the store without it.
inline constexpr std::uint32_t version_in_heap = 9;
inline constexpr std::uint64_t meta_pages = 2;

/// Page 0 or 1: the last checkpoint, or the one before.
struct meta_on_media {
    std::array<char, 8> magic;
    std::uint32_t version;
    std::uint32_t page_bytes;
    std::array<std::uint8_t, 16> uuid;
    std::uint64_t sequence;     ///< of checkpoints; the page is sequence % 2
    std::uint64_t transaction;  ///< the last in the checkpoint
    tree_record main;
    std::uint64_t next_page;       ///< pages from here on were never used
    std::uint64_t free_list;       ///< first page of the list of free pages; 0: none is free
    std::uint64_t free_list_size;  ///< bytes
    std::uint64_t free_list_checksum;
    std::uint64_t log_page;
    std::uint64_t log_pages;  ///< in a heap, each checkpoint uses the half `sequence % 2`
    std::uint64_t map_size;   ///< the largest that a writer was given, in bytes; 0: none
    std::uint64_t checksum;   ///< XXH3 of what is above
};
static_assert(sizeof(meta_on_media) == 160 && offsetof(meta_on_media, checksum) == 152);

/// What a record of the log begins with, behind the header that all logs have (log/log_format.hpp). Its sequence is the
/// transaction. Behind it: extents taken, extents given back, extents freed, then page changes.
struct commit_on_media {
    tree_record main;
    std::uint64_t next_page;
    std::uint32_t taken_count;
    std::uint32_t returned_count;
    std::uint32_t freed_count;
    std::uint32_t page_count;
};
static_assert(sizeof(commit_on_media) == 72 && offsetof(commit_on_media, next_page) == 48);

struct extent_on_media {
    std::uint64_t start;
    std::uint64_t count;
};
static_assert(sizeof(extent_on_media) == 16);

/// Pages for transactions from `born` on, up to the one before `died`.
struct freed_extent_on_media {
    std::uint64_t start;
    std::uint64_t count;
    std::uint64_t born;
    std::uint64_t died;
};
static_assert(sizeof(freed_extent_on_media) == 32);

/// A page, or a run as one, that a commit wrote: the page `base` (0: zeros), and the ranges that differ. Behind it, for
/// each range, a log_range_on_media and its bytes, padded to a multiple of four.
struct log_page_on_media {
    std::uint64_t page;
    std::uint64_t base;
    std::uint32_t pages;
    std::uint32_t range_count;
};
static_assert(sizeof(log_page_on_media) == 24);

struct log_range_on_media {
    std::uint32_t offset;  ///< from the page's start
    std::uint32_t size;
};

/// Behind it: extents that any transaction may use, then those that readers may still see.
struct free_list_on_media {
    std::uint64_t ready_count;
    std::uint64_t freed_count;
};

}  // namespace holdfast::store_engine
