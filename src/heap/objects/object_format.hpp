// The directory of objects on media (docs/format.md, section "objects"). Little endian.
//
// Groups of 512 pages: one of checksums (segment/format/heap_format.hpp), the others cut into cells of 64 bytes. A
// record takes consecutive cells of one group: header, name, type name, description. Free cells are zero; outside
// records, a cell that begins with a zero word is free. A record bears `unfinished_magic` while it is written or
// erased; if a crash leaves it so, its cells are free.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::heap {

inline constexpr std::uint64_t cell_size = 64;
inline constexpr std::uint64_t cells_per_page = base::page_size / cell_size;
inline constexpr std::uint64_t cells_per_group = segment::objects_group_pages * cells_per_page;
inline constexpr std::uint32_t object_magic = 0x314a424f;      ///< "OBJ1"
inline constexpr std::uint32_t unfinished_magic = 0x304a424f;  ///< "OBJ0"; only `cells` is valid

enum class object_kind : std::uint8_t {
    named = 1,
    unique = 2,     ///< named by its type
    anonymous = 3,  ///< has no name
    heap = 4,       ///< the heap itself: a description; other numbers are 0
    /// A described type (type_registry.hpp). count: its number; type size: bytes of an element; offset: the stride;
    /// name: for people; description: u32 offsets of pointers.
    type = 5,
};

struct object_record_on_media {
    std::uint32_t magic;               ///< object_magic
    std::uint32_t cells;               ///< of the whole record
    std::uint64_t checksum;            ///< XXH3-64 of the record, this field 0
    std::uint32_t kind;                ///< object_kind
    std::uint32_t name_length;         ///< bytes
    std::uint32_t type_length;         ///< bytes of the type name (C++ ABI, mangled)
    std::uint32_t description_length;  ///< bytes
    std::uint64_t offset;              ///< of the first element, from the base; a type's stride
    std::uint64_t count;               ///< elements; a type's number
    std::uint64_t type_size;           ///< bytes of one element
    std::uint64_t reserved;            ///< 0
};
static_assert(sizeof(object_record_on_media) == cell_size);
static_assert(offsetof(object_record_on_media, checksum) == 8);
static_assert(offsetof(object_record_on_media, kind) == 16);
static_assert(offsetof(object_record_on_media, offset) == 32);
static_assert(offsetof(object_record_on_media, type_size) == 48);

[[nodiscard]] constexpr std::uint64_t cells_for(std::uint64_t string_bytes) noexcept {
    return 1 + (string_bytes + cell_size - 1) / cell_size;
}
/// All cells of a group but its checksum page.
inline constexpr std::uint64_t longest_record_cells = cells_per_group - cells_per_page;

}  // namespace holdfast::heap
