#include "extent/heap_end.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/units.hpp"

namespace holdfast::extent {

using base::failure_code;
using base::pages;
using base::result;

result<void> heap_end::grow_for(pages length, pages alignment) {
    const pages frontier = map_.frontier();
    const std::uint64_t reserved = map_.entries().reserved().value;
    const pages tail = map_.free().length_before(frontier);
    const auto at = base::checked_align_up(frontier.value - tail.value, alignment.value);
    const auto end = at ? base::checked_add(*at, length.value) : std::nullopt;
    if (!end || *end > reserved) {
        return base::failure_to_read(failure_code::limit, [&] {
            return make_failure(failure_code::limit, "addresses reserved for the heap",
                                fmt::format("{} pages, {} in use", reserved, (frontier - map_.free().total()).value),
                                fmt::format("room for {} pages more", length.value));
        });
    }
    if (*end > growth_.frontier().value) {
        HF_TRY_ASSIGN([[maybe_unused]] const pages added, growth_.grow({*end - growth_.frontier().value}));
    }
    adopt_grown({});
    return {};
}

bool heap_end::grow_on(std::uint32_t node, pages length, pages alignment) {
    const node_layout& layout = map_.layout();
    const pages old_frontier = map_.frontier();
    if (growth_.frontier() != old_frontier) {
        return false;
    }
    for (pages from = old_frontier;; from = layout.segment_end(from)) {
        const pages tail = from == old_frontier ? map_.free().length_before(from) : pages{};
        const pages begin{std::max((from - tail).value, base::align_down(from.value, layout.segment.value))};
        const pages end = pages{base::align_up(begin.value, alignment.value)} + length;
        const pages most = layout.segment_end(from) - from;
        if (layout.node_of(from) != node || end > from + most) {
            continue;
        }
        if (end <= from || end > map_.entries().reserved() ||
            !growth_.grow_beyond(from - old_frontier, end - from, most)) {
            return false;
        }
        adopt_grown(from - old_frontier);
        return true;
    }
}

/// Behind the `skipped` pages, those up to space_growth::backed_end() have just been reserved; the others are holes.
void heap_end::adopt_grown(pages skipped) noexcept {
    const pages begin = map_.frontier();
    const pages end = growth_.frontier();
    if (end <= begin) {
        return;
    }
    const pages from = begin + skipped;
    const pages backed_end{std::clamp(growth_.backed_end().value, from.value, end.value)};
    page_backing& backing = map_.backing();
    backing.set_hole(begin, skipped);
    backing.set_backed(from, backed_end - from);
    backing.set_hole(backed_end, end - backed_end);
    // Those of new files are zero, and reading them would take a page fault for each 512 of them.
    clean_entries(begin, std::clamp(growth_.made_from(), begin, end));
    map_.append(end, backed_end - from);
}

/// A heap that was longer before a power loss left entries there.
void heap_end::clean_entries(pages begin, pages end) const noexcept {
    if (!growth_.gives_back_at_once()) {
        return;
    }
    for (pages page = begin; page < end; ++page.value) {
        if (map_.entries().load(page) != 0) {
            map_.entries().store(page, {});
        }
    }
}

pages heap_end::excess(pages keep) const noexcept {
    const pages end = map_.frontier();
    const pages tail = map_.free().length_before(end);
    const std::uint64_t unit = growth_.unit().value;
    const std::uint64_t wanted = base::align_up((end - tail).value + std::min(keep, tail).value, unit);
    return end - pages{std::clamp(wanted, unit, end.value)};
}

pages heap_end::shorten(pages keep) noexcept {
    const pages gone = excess(keep);
    if (gone.value != 0) {
        map_.cut(map_.frontier() - gone);
    }
    return gone;
}

void heap_end::restore() noexcept {
    const pages begin = map_.frontier();
    const pages end = growth_.frontier();
    if (end > begin) {
        clean_entries(begin, end);
        map_.append(end, end - begin);
    }
}

}  // namespace holdfast::extent
