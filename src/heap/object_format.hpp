// The directory of objects on media (docs/format.md, section "objects"). Little endian.
//
// The objects file is a sequence of groups of 512 pages; the first page of a group holds checksums
// (segment/page_sums.hpp), the others are cut into cells of 64 bytes. A record takes neighbouring cells of one group:
// its header, then the bytes of name, type name and description. A cell that begins with a zero word, outside a record,
// is free; free cells are zero. Where durability `atomic` writes or erases a record, it bears `unfinished_magic` until
// all of it is durable: after a crash, its cells are free.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "segment/page_sums.hpp"

namespace holdfast::heap {

inline constexpr std::uint64_t cell_size = 64;
inline constexpr std::uint64_t cells_per_page = base::page_size / cell_size;
inline constexpr std::uint64_t cells_per_group = segment::objects_group_pages * cells_per_page;
inline constexpr std::uint32_t object_magic = 0x314a424f;      ///< "OBJ1"
inline constexpr std::uint32_t unfinished_magic = 0x304a424f;  ///< "OBJ0"; the record's `cells` counts, nothing else

enum class object_kind : std::uint8_t {
    named = 1,
    unique = 2,     ///< name: the type's
    anonymous = 3,  ///< no name
    heap = 4,       ///< the heap itself: its description; offset, count and type size are 0
    /// What the program says of one of its types (type_registry.hpp): count is its number, type size the bytes of an
    /// element, offset its stride; name for people; description: u32 offsets of pointers.
    type = 5,
};

struct object_record_on_media {
    std::uint32_t magic;               ///< object_magic
    std::uint32_t cells;               ///< of the whole record
    std::uint64_t checksum;            ///< XXH3-64 of the record's bytes with this field 0
    std::uint32_t kind;                ///< object_kind
    std::uint32_t name_length;         ///< bytes
    std::uint32_t type_length;         ///< bytes of the type's name, as the C++ ABI mangles it
    std::uint32_t description_length;  ///< bytes
    std::uint64_t offset;              ///< of the first element, from the base; stride of a type
    std::uint64_t count;               ///< elements; number of a type
    std::uint64_t type_size;           ///< bytes of one element
    std::uint64_t reserved;            ///< 0
};
static_assert(sizeof(object_record_on_media) == cell_size);
static_assert(offsetof(object_record_on_media, checksum) == 8);
static_assert(offsetof(object_record_on_media, kind) == 16);
static_assert(offsetof(object_record_on_media, offset) == 32);
static_assert(offsetof(object_record_on_media, type_size) == 48);

/// Cells of a record whose strings take so many bytes.
[[nodiscard]] constexpr std::uint64_t cells_for(std::uint64_t string_bytes) noexcept {
    return 1 + (string_bytes + cell_size - 1) / cell_size;
}
/// The longest record: what a group holds beside its checksum page.
inline constexpr std::uint64_t longest_record_cells = cells_per_group - cells_per_page;

}  // namespace holdfast::heap
