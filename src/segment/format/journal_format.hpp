// The journal on media (docs/format.md, section "journal"). Little endian.
//
//     page 0                 journal_header_on_media
//     page 1                 the superblock of the commit
//     pages 2 .. 2+T-1       T = divide_up(entry_count * 16, 4096) pages of journal_entry_on_media, rest zero
//     pages 2+T .. 2+T+n-1   n = entry_count pages of content, in the order of the entries
//
// A void journal is page 0 alone with entry_count 0 and journal_flag_void.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.hpp"

namespace holdfast::segment {

inline constexpr char journal_magic[8] = {'H', 'F', 'J', 'O', 'U', 'R', 'N', 'L'};
inline constexpr std::uint32_t journal_version = 1;
inline constexpr std::uint32_t journal_flag_void = 1U << 0U;

struct journal_header_on_media {
    char magic[8];
    std::uint32_t version;
    std::uint32_t flags;
    std::uint8_t uuid[16];
    std::uint64_t sequence;  ///< of the commit; void: of the superblock at that time
    std::uint64_t entry_count;
    std::uint64_t table_checksum;  ///< of pages 1 .. 2+T-1, seeded with the sequence; void: 0
    std::uint8_t reserved[4088 - 56];
    std::uint64_t checksum;  ///< of the bytes before it
};
static_assert(sizeof(journal_header_on_media) == base::page_size);
static_assert(offsetof(journal_header_on_media, uuid) == 16);
static_assert(offsetof(journal_header_on_media, sequence) == 32);
static_assert(offsetof(journal_header_on_media, entry_count) == 40);
static_assert(offsetof(journal_header_on_media, table_checksum) == 48);
static_assert(offsetof(journal_header_on_media, checksum) == 4088);

/// Other ids are indices of segments.
inline constexpr std::uint64_t objects_file_id = (std::uint64_t{1} << 24) - 1;
inline constexpr unsigned entry_page_bits = 40;

struct journal_entry_on_media {
    std::uint64_t place;     ///< bits 0..39 page within the file, bits 40..63 file id
    std::uint64_t checksum;  ///< of the page's content
};
static_assert(sizeof(journal_entry_on_media) == 16);

}  // namespace holdfast::segment
