#include "extent/page_entries.hpp"

#include <algorithm>
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

using base::failure_code;
using base::pages;
using base::result;
using segment::extent_kind;

result<void> page_entries::check_frontier(pages frontier) const {
    if (reserved() < frontier || frontier.value == 0) {
        return make_failure(failure_code::corrupt, "frontier", fmt::format("page {}", frontier.value),
                            fmt::format("a page of the reservation of {} bytes", space_.reservation()));
    }
    return {};
}

result<void> page_entries::read_blocks(pages frontier, extent_visitor each) const {
    HF_TRY(check_frontier(frontier));
    return walk_blocks({}, frontier, frontier, each, [](pages, pages) {});
}

result<void> page_entries::rebuild(pages frontier) const {
    return walk_blocks(
        {}, frontier, frontier, [](const extent&) {}, [this](pages start, pages length) { write_gap(start, length); });
}

/// `end` where no block starts. Zeros, which are most entries, are skipped a cache line at a time.
pages page_entries::next_block(pages from, pages end) const noexcept {
    constexpr std::uint64_t line = base::cache_line_size / segment::page_entry_size;
    const std::uint64_t per_segment = space_.shape().pages();
    for (std::uint64_t page = from.value; page < end.value;) {
        const std::uint64_t until = std::min(end.value, (page / per_segment + 1) * per_segment);
        const std::uint64_t* const entries = &space_.page_entry_word({page});
        for (std::uint64_t i = 0; i < until - page;) {
            if ((page + i) % line == 0 && until - page - i >= line) {
                std::uint64_t any = 0;
                for (std::uint64_t k = 0; k < line; ++k) {
                    any |= entries[i + k];
                }
                if (any == 0) {
                    i += line;
                    continue;
                }
            }
            if (is_block_entry(entries[i])) {
                return {page + i};
            }
            ++i;
        }
        page = until;
    }
    return end;
}

void page_entries::write_gap(pages start, pages length) const noexcept {
    const std::uint64_t per_segment = space_.shape().pages();
    const std::uint64_t end = start.value + length.value;
    const segment::page_entry whole{extent_kind::free, length};
    if (load(start) != segment::encode(whole)) {
        store(start, whole);
    }
    for (std::uint64_t page = start.value + 1; page < end;) {
        const std::uint64_t until = std::min(end, (page / per_segment + 1) * per_segment);
        const std::uint64_t* const entries = &space_.page_entry_word({page});
        for (std::uint64_t i = 0; i < until - page; ++i) {
            if (entries[i] != 0) {
                store({page + i}, {});
            }
        }
        page = until;
    }
}

}  // namespace holdfast::extent
