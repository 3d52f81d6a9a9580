#include "extent/extent_places.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace holdfast::extent {

using base::failure_code;
using base::pages;
using base::result;
using segment::page_entry;

result<free_index::placement> extent_places::find(pages length, pages alignment, std::uint32_t node) {
    if (is_local(node, length)) {
        const auto near = map_.free().best_fit_on(node, length, alignment);
        if (near || end_.grow_on(node, length, alignment)) {
            return near ? *near : *map_.free().best_fit_on(node, length, alignment);
        }
    }
    if (const auto place = map_.free().best_fit(length, alignment)) {
        return *place;
    }
    while (true) {
        auto grown = end_.grow_for(length, alignment);
        if (grown) {
            break;
        }
        if (!is_full_disk(grown.error()) || !disk_.make_space(length, {})) {
            return std::move(grown).error();
        }
    }
    if (const auto place = map_.free().best_fit(length, alignment)) {
        return *place;
    }
    return make_failure(failure_code::no_space, "growth", "less than was asked for",
                        fmt::format("{} pages", length.value));
}

result<pages> extent_places::take(const free_index::placement& place, pages alignment, page_entry wanted) {
    HF_TRY_ASSIGN(const auto backed, disk_.backed_place(place, wanted.length, alignment));
    return map_.carve(backed, wanted);
}

std::size_t extent_places::take_some(const free_index::placement& place, pages length, std::span<pages> out,
                                     std::uint32_t node) {
    pages end = place.in.start + place.in.length;
    if (is_local(node, length)) {
        end = std::max(place.at + length, std::min(end, map_.layout().segment_end(place.at)));
    }
    const std::size_t some = std::min<std::uint64_t>(out.size(), (end - place.at).value / length.value);
    if (!disk_.back(place, {some * length.value})) {
        const auto one = disk_.backed_place(place, length, {1});
        if (!one) {
            return 0;
        }
        map_.carve_some(*one, length, out.first(1));
        return 1;
    }
    map_.carve_some(place, length, out.first(some));
    return some;
}

result<void> extent_places::take_adjacent(const free_index::placement& place, pages alignment, pages length,
                                          std::span<pages> out) {
    const pages all{length.value * out.size()};
    HF_TRY_ASSIGN(const auto backed, disk_.backed_place(place, all, alignment));
    map_.carve_some(backed, length, out);
    return {};
}

bool extent_places::make_room_behind(pages start, pages now, pages wanted) {
    const pages end = start + now;
    const pages more = wanted - now;
    if (map_.layout().nodes > 1 && start + wanted > map_.layout().segment_end(start)) {
        return false;  // pages of another node
    }
    const auto behind = [&] { return end < map_.frontier() ? map_.free().length_at(end) : pages{}; };
    if (behind() < more && (end + behind() != map_.frontier() || !end_.grow_for(more, {1}) || behind() < more)) {
        return false;
    }
    return disk_.back({{end, behind(), {}}, end}, more).ok();
}

}  // namespace holdfast::extent
