#include "extent/disk_space.hpp"

#include <algorithm>
#include <bit>

#include "base/units.hpp"

namespace holdfast::extent {

using base::pages;
using base::result;

result<void> disk_space::back(const free_index::placement& place, pages length) {
    if (map_.backing().all_backed(place.at, length)) {
        return {};
    }
    // A hole that comes into use again is mostly used from end to end.
    const auto [least, most] = growth_.reserve_steps(place.at);
    const std::uint64_t step = std::clamp(std::bit_floor(place.in.length.value / 8 + 1), least.value, most.value);
    const pages in_end = place.in.start + place.in.length;
    const pages needed_end = place.at + length;
    const pages from{std::max(place.in.start.value, base::align_down(place.at.value, least.value))};
    const pages end{std::min(in_end.value, base::align_up(needed_end.value, step))};
    const bool more = growth_.has_room(end - from);
    auto taken = more ? back_range(place.in.start, from, end) : back_range(place.in.start, place.at, needed_end);
    if (!taken && more && is_full_disk(taken.error())) {
        taken = back_range(place.in.start, place.at, needed_end);
    }
    while (!taken && is_full_disk(taken.error()) && make_space(length, place.in.start)) {
        taken = back_range(place.in.start, place.at, needed_end);
    }
    if (!taken && is_full_disk(taken.error()) && growth_.gives_back_at_once()) {
        // The last space to give back is in the rest of the same extent.
        give_back_part(place.in.start, place.in.start, place.at);
        give_back_part(place.in.start, needed_end, in_end);
        taken = back_range(place.in.start, place.at, needed_end);
    }
    return taken;
}

result<free_index::placement> disk_space::backed_place(const free_index::placement& place, pages length,
                                                       pages alignment) {
    auto taken = back(place, length);
    if (taken) {
        // Parts of the free extent may have been given back meanwhile.
        return free_index::placement{{place.in.start, map_.free().length_at(place.in.start), {}}, place.at};
    }
    if (is_full_disk(taken.error())) {
        if (const auto other = find_backed(length, alignment)) {
            return *other;
        }
    }
    return std::move(taken).error();
}

/// On a full disk the best fit may be a hole while other free extents are backed.
std::optional<free_index::placement> disk_space::find_backed(pages length, pages alignment) const {
    std::optional<free_index::placement> found;
    map_.free().for_each_backed([&](const free_index::run& one) {
        if (found || one.backed < length) {
            return;
        }
        const pages end = one.start + one.length;
        pages at{base::align_up(one.start.value, alignment.value)};
        while (!found && at + length <= end) {
            const pages last = at + length - pages{1};
            const pages gap = map_.backing().last_not_backed(last);
            if (gap < at) {
                found = free_index::placement{one, at};
            } else {
                at = {base::align_up(gap.value + 1, alignment.value)};
            }
        }
    });
    return found;
}

result<void> disk_space::back_range(pages whole, pages from, pages end) {
    // Where this fails, it is unknown which pages are reserved.
    page_backing& backing = map_.backing();
    const pages holes = backing.holes(from, end - from);
    backing.forget_holes(from, end - from);
    map_.index().add_backed(whole, holes);
    HF_TRY(growth_.reserve_again(from, end - from));
    backing.set_backed(from, end - from);
    return {};
}

result<void> disk_space::back_used(pages start, pages length) {
    auto taken = growth_.reserve_again(start, length);
    while (!taken && is_full_disk(taken.error()) && make_space(length, {})) {
        taken = growth_.reserve_again(start, length);
    }
    return taken;
}

void disk_space::give_back_part(pages whole, pages from, pages end) {
    const pages length = end - from;
    page_backing& backing = map_.backing();
    if (length.value == 0 || backing.holes(from, length) == length || !may_go() || !growth_.give_back(from, length)) {
        return;
    }
    map_.index().remove_backed(whole, backing.not_holes(from, length));
    backing.set_hole(from, length);
}

bool disk_space::make_space(pages wanted, pages spared) {
    if (!growth_.gives_back_at_once() || !may_go()) {
        return false;
    }
    pages gone{};
    for (std::uint64_t left = map_.free().count(); left > 0 && gone < wanted; --left) {
        const auto oldest = map_.free().oldest_backed();
        if (!oldest) {
            break;
        }
        if (oldest->start != spared && growth_.give_back(oldest->start, oldest->length)) {
            map_.backing().set_hole(oldest->start, oldest->length);
            gone += map_.index().remove_all_backed(oldest->start);
        } else {
            map_.index().add_backed(oldest->start, {});  // it becomes the youngest
        }
    }
    return gone.value != 0;
}

}  // namespace holdfast::extent
