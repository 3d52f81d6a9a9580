// Each invariant is one function, shared by open(), check() and the tests. EXT-6 to EXT-8 (extent_checker.cpp) and
// EXT-9 (extent_cache.cpp) and EXT-10 (remote_extents.cpp) are for check() alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/failure.hpp"
#include "base/units.hpp"
#include "segment/format/segment_format.hpp"

namespace holdfast::extent {

struct extent {
    base::pages start{};
    base::pages length{};
    segment::extent_kind kind = segment::extent_kind::none;
    std::uint32_t type = 0;
    constexpr bool operator==(const extent&) const = default;
};

struct entry_in_place {
    std::uint64_t word = 0;
    base::pages position{};
    base::pages frontier{};
    segment::extent_kind previous = segment::extent_kind::none;

    [[nodiscard]] constexpr segment::page_entry entry() const noexcept { return segment::decode_page_entry(word); }
};

// EXT-1: the extents tile the user space from page 0 to the frontier, without gap or overlap.
[[nodiscard]] constexpr bool is_tile(const entry_in_place& it) noexcept {
    return it.entry().kind != segment::extent_kind::none && it.entry().length <= it.frontier - it.position;
}

// EXT-2: the entry of an extent is of valid form: a known kind, a length above zero, unused bits zero.
[[nodiscard]] constexpr bool is_well_formed(const entry_in_place& it) noexcept {
    return segment::is_valid_page_entry(it.word) && it.entry().length.value > 0;
}

// EXT-3: no two free extents are neighbours.
[[nodiscard]] constexpr bool is_coalesced(const entry_in_place& it) noexcept {
    return it.entry().kind != segment::extent_kind::free || it.previous != segment::extent_kind::free;
}

// EXT-4: a slab fills one granule: 16 pages, at a multiple of 16.
[[nodiscard]] constexpr bool is_granule_if_slab(const entry_in_place& it) noexcept {
    return it.entry().kind != segment::extent_kind::slab ||
           (it.entry().length.value == base::pages_per_granule && it.position.value % base::pages_per_granule == 0);
}

// EXT-5: the first extent, and no other, holds the roots, in 16 pages.
[[nodiscard]] constexpr bool is_roots_iff_first(const entry_in_place& it) noexcept {
    const bool roots = it.entry().kind == segment::extent_kind::roots;
    return it.position.value == 0 ? roots && it.entry().length.value == base::pages_per_granule : !roots;
}

[[nodiscard]] constexpr bool is_sound(const entry_in_place& it) noexcept {
    return is_well_formed(it) && is_tile(it) && is_coalesced(it) && is_granule_if_slab(it) && is_roots_iff_first(it);
}

/// Other entries are hints after a crash: they were stored past the durable records.
[[nodiscard]] constexpr bool is_block_entry(std::uint64_t word) noexcept {
    const segment::extent_kind kind = segment::decode_page_entry(word).kind;
    return kind == segment::extent_kind::used || kind == segment::extent_kind::slab ||
           kind == segment::extent_kind::roots;
}

/// The end of the reservation has no error of the system.
[[nodiscard]] inline bool is_full_disk(const base::failure& what) noexcept {
    return what.code == base::failure_code::no_space && what.os_error != 0;
}

[[nodiscard]] base::failure make_failure(base::failure_code code, std::string field, std::string found,
                                         std::string expected);

/// Nothing where EXT-1 to EXT-5 hold.
[[nodiscard]] std::optional<base::failure> first_fault(const entry_in_place& it);

}  // namespace holdfast::extent
