#include "extent/extent_checker.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "extent/page_entries.hpp"

namespace holdfast::extent {

using base::failure_code;
using base::pages;
using base::result;
using segment::extent_kind;

void extent_checker::check(std::vector<std::string>& problems) const {
    pages free_pages{};
    pages holes{};
    extent_index::kind_counts counts;
    const free_index& index = map_.free();
    const auto walked = map_.entries().walk(map_.frontier(), [&](const extent& found) {
        check_interiors(found, problems);
        check_index(found, problems);
        ++counts[found.kind];
        free_pages += found.kind == extent_kind::free ? found.length : pages{};
        check_holes(found, holes, problems);
    });
    if (!walked) {
        problems.push_back(walked.error().message());
        return;
    }
    if (!(counts == map_.index().counts()) || free_pages != index.total() ||
        index.count() != counts[extent_kind::free]) {
        problems.push_back(fmt::format("EXT-7: the index counts {} free pages in {} extents, the page entries {} in {}",
                                       index.total().value, index.count(), free_pages.value,
                                       counts[extent_kind::free]));
    }
    if (holes != index.total() - index.backed()) {
        problems.push_back(fmt::format("EXT-8: the index counts {} pages without space, of free extents {} are holes",
                                       (index.total() - index.backed()).value, holes.value));
    }
}

result<void> extent_checker::check_entries(pages first, pages count) const {
    entry_in_place it{0, first, map_.frontier(), extent_kind::none};
    for (const pages end = std::min(first + count, it.frontier); it.position < end; ++it.position.value) {
        it.word = map_.entries().load(it.position);
        if (!map_.index().starts_at(it.position)) {
            if (is_block_entry(it.word)) {
                return make_failure(failure_code::corrupt, fmt::format("page entry {}", it.position.value),
                                    fmt::format("{:#x}", it.word), "EXT-6: none of a block inside an extent");
            }
            continue;
        }
        if (auto fault = first_fault(it)) {
            return std::move(*fault);
        }
        const pages next = it.position + it.entry().length;
        const pages inside = it.position + pages{1};
        if ((next != it.frontier && !map_.index().starts_at(next)) ||
            map_.index().starts_in(inside, next - inside) != 0) {
            return make_failure(failure_code::corrupt, fmt::format("page entry {}", it.position.value),
                                fmt::format("{} pages", it.entry().length.value),
                                "EXT-7: an extent that ends where the next one begins");
        }
        it.previous = it.entry().kind;
    }
    return {};
}

// EXT-8: holes are only in free extents, and the index counts them.
void extent_checker::check_holes(const extent& of, pages& holes, std::vector<std::string>& problems) const {
    const pages found = map_.backing().holes(of.start, of.length);
    if (of.kind == extent_kind::free) {
        holes += found;
    } else if (found.value != 0) {
        problems.push_back(fmt::format("EXT-8: {} pages of the extent at page {}, which is in use, are holes",
                                       found.value, of.start.value));
    }
}

// EXT-6: no page entry inside an extent says that a block starts there. (Old entries of free extents may be there.)
void extent_checker::check_interiors(const extent& of, std::vector<std::string>& problems) const {
    for (std::uint64_t page = of.start.value + 1; page < of.start.value + of.length.value; ++page) {
        if (const std::uint64_t word = map_.entries().load({page}); is_block_entry(word)) {
            problems.push_back(
                fmt::format("EXT-6: page entry {} inside the extent at page {}: found {:#x}, expected none of a block",
                            page, of.start.value, word));
            return;
        }
    }
}

// EXT-7: the index in DRAM agrees with the page entry of every extent.
void extent_checker::check_index(const extent& of, std::vector<std::string>& problems) const {
    const pages expected = of.kind == extent_kind::free ? of.length : pages{};
    if (!map_.index().starts_at(of.start) || map_.free().length_at(of.start) != expected ||
        map_.free().length_before(of.start + of.length) != expected) {
        problems.push_back(fmt::format("EXT-7: extent at page {}: the index says {} free pages, the page entry {}",
                                       of.start.value, map_.free().length_at(of.start).value, expected.value));
    }
}

}  // namespace holdfast::extent
