#include "extent/extent_invariants.hpp"

#include <utility>

#include <fmt/format.h>

namespace holdfast::extent {

base::failure make_failure(base::failure_code code, std::string field, std::string found, std::string expected) {
    base::failure what;
    what.code = code;
    what.field = std::move(field);
    what.found = std::move(found);
    what.expected = std::move(expected);
    return what;
}

std::optional<base::failure> first_fault(const entry_in_place& it) {
    const char* expected = nullptr;
    if (!is_well_formed(it)) {
        expected = it.word == 0 ? "EXT-1: the start of an extent" : "EXT-2: a known kind and a length above 0";
    } else if (!is_tile(it)) {
        expected = "EXT-1: an extent that ends before the frontier";
    } else if (!is_coalesced(it)) {
        expected = "EXT-3: no free extent after a free extent";
    } else if (!is_granule_if_slab(it)) {
        expected = "EXT-4: a slab of 16 pages at a multiple of 16";
    } else if (!is_roots_iff_first(it)) {
        expected = "EXT-5: the roots at page 0, 16 pages, and nowhere else";
    } else {
        return std::nullopt;
    }
    return make_failure(base::failure_code::corrupt, fmt::format("page entry {}", it.position.value),
                        fmt::format("{:#x} (kind {}, {} pages; frontier {})", it.word,
                                    static_cast<unsigned>(it.entry().kind), it.entry().length.value, it.frontier.value),
                        expected);
}

}  // namespace holdfast::extent
