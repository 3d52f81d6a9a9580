#include "extent/extent_map.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace holdfast::extent {

base::result<void> extent_index::reset(base::pages pages, node_layout layout) {
    HF_TRY(free_.reset(pages, layout));
    HF_TRY(starts_.reset(pages, "extent starts"));
    counts_ = {};
    return {};
}

void extent_index::add_backed(base::pages start, base::pages pages) noexcept {
    free_index::run changed = free_.erase(start);
    changed.backed += pages;
    free_.insert(changed);
}

void extent_index::remove_backed(base::pages start, base::pages pages) noexcept {
    free_index::run changed = free_.erase(start);
    changed.backed -= pages;
    free_.insert(changed);
}

base::pages extent_index::remove_all_backed(base::pages start) noexcept {
    free_index::run changed = free_.erase(start);
    const base::pages before = changed.backed;
    changed.backed = {};
    free_.insert(changed);
    return before;
}

using base::failure;
using base::failure_code;
using base::pages;
using base::result;
using segment::extent_kind;
using segment::page_entry;

result<void> extent_map::reset() {
    HF_TRY(index_.reset(entries_.reserved(), layout_));
    HF_TRY(backing_.reset(entries_.reserved()));
    set_frontier({});
    return {};
}

void extent_map::format(pages frontier, pages backed) noexcept {
    const extent roots{{0}, {base::pages_per_granule}, extent_kind::roots};
    const free_index::run rest{roots.length, frontier - roots.length, backed};
    entries_.store(rest.start, {extent_kind::free, rest.length});
    entries_.store(roots.start, {roots.kind, roots.length});
    backing_.set_backed(rest.start, backed);
    backing_.set_hole(rest.start + backed, rest.length - backed);
    index_.add_free(rest);
    index_.add(roots.start, roots.kind);
    set_frontier(frontier);
}

pages extent_map::carve(const free_index::placement& place, page_entry wanted) noexcept {
    const pages length = wanted.length;
    const pages end = place.at + length;
    const free_index::run whole = index_.remove_free(place.in.start);
    const pages front = place.at - whole.start;
    const pages front_backed = backing_.not_holes(whole.start, front);
    const pages rest = whole.start + whole.length - end;
    if (rest.value != 0) {
        entries_.store(end, {extent_kind::free, rest});
        index_.add_free({end, rest, whole.backed - length - front_backed});
    }
    entries_.store(place.at, wanted);
    index_.add(place.at, wanted.kind);
    if (front.value != 0) {
        // Until this store, the new extent lay inside the free one.
        entries_.store(whole.start, {extent_kind::free, front});
        index_.add_free({whole.start, front, front_backed});
    }
    return place.at;
}

void extent_map::carve_some(const free_index::placement& place, pages length, std::span<pages> out) noexcept {
    const free_index::run whole = index_.remove_free(place.in.start);
    const pages taken{length.value * out.size()};
    const pages front = place.at - whole.start;
    const pages front_backed = backing_.not_holes(whole.start, front);
    const pages rest = whole.length - front - taken;
    if (rest.value != 0) {
        entries_.store(place.at + taken, {extent_kind::free, rest});
        index_.add_free({place.at + taken, rest, whole.backed - taken - front_backed});
    }
    // Until the last store, that of the first extent, all lie inside the free one.
    for (std::size_t i = out.size(); i-- > 0;) {
        out[i] = place.at + pages{i * length.value};
        entries_.store(out[i], {extent_kind::reserved, length});
        index_.add(out[i], extent_kind::reserved);
    }
    if (front.value != 0) {
        entries_.store(whole.start, {extent_kind::free, front});
        index_.add_free({whole.start, front, front_backed});
    }
}

free_index::run extent_map::reserve_backed_end(const free_index::run& from, pages most) noexcept {
    const free_index::run whole = index_.remove_free(from.start);
    const pages end = backing_.last_not_hole(whole.start + whole.length - pages{1}) + pages{1};
    const pages start{std::max(whole.start.value, end.value - std::min(end.value, most.value))};
    const free_index::run one{start, end - start, backing_.not_holes(start, end - start)};
    const pages behind = whole.start + whole.length - end;
    if (behind.value != 0) {
        entries_.store(end, {extent_kind::free, behind});
        index_.add_free({end, behind, {}});
    }
    entries_.store(start, {extent_kind::reserved, one.length});
    index_.add(start, extent_kind::reserved);
    if (start != whole.start) {
        entries_.store(whole.start, {extent_kind::free, start - whole.start});
        index_.add_free({whole.start, start - whole.start, whole.backed - one.backed});
    }
    return one;
}

std::optional<failure> extent_map::refusal(pages start, extent_kind kind) const {
    const auto refuse = [&](const char* found) {
        return base::failure_to_read(failure_code::bad_address, [&] {
            const auto address = reinterpret_cast<std::uintptr_t>(entries_.space().address(base::offset_of(start)));
            return make_failure(failure_code::bad_address, fmt::format("address {:#x}", address), found,
                                kind == extent_kind::slab ? "the start of a slab" : "the start of an allocated block");
        });
    };
    if (start >= frontier()) {
        return refuse("an address outside the heap, beyond its frontier");
    }
    if (!index_.starts_at(start)) {
        return refuse("an address inside an extent");
    }
    const page_entry entry = segment::decode_page_entry(entries_.load(start));
    if (entry.kind == kind) {
        return std::nullopt;
    }
    switch (entry.kind) {
        case extent_kind::free: return refuse("free memory");
        case extent_kind::slab: return refuse("a slab of small blocks");
        case extent_kind::roots: return refuse("the roots of the heap");
        case extent_kind::used: return refuse("a block of whole pages");
        case extent_kind::reserved: return refuse("a reserved block of whole pages");
        default: return refuse("no extent");
    }
}

result<pages> extent_map::withdraw(pages start, extent_kind kind) {
    if (kind != extent_kind::used && kind != extent_kind::slab && kind != extent_kind::reserved) {
        return make_failure(failure_code::invalid_argument, "kind of extent", "none of them", "used, slab or reserved");
    }
    if (auto refused = refusal(start, kind)) {
        return std::move(*refused);
    }
    const std::uint64_t word = entries_.load(start);
    const pages length = segment::decode_page_entry(word).length;
    const pages end = start + length;
    if (end > frontier() || (end < frontier() && !index_.starts_at(end))) {
        return make_failure(failure_code::corrupt, fmt::format("page entry {}", start.value),
                            fmt::format("a length of {} pages", length.value), "the end at the next extent");
    }
    if (!entries_.replace(start, word, {extent_kind::reserved, length})) {
        return make_failure(failure_code::bad_address, fmt::format("page {}", start.value),
                            "a block that another thread frees at this moment", "the start of an allocated block");
    }
    index_.remove(start, kind);
    return length;
}

void extent_map::unite(const free_index::run& one) noexcept {
    const pages end = one.start + one.length;
    free_index::run freed = one;
    if (const pages before = free().length_before(one.start); before.value != 0) {
        const free_index::run joined = index_.remove_free(one.start - before);
        freed = {joined.start, joined.length + freed.length, joined.backed + freed.backed};
    }
    const bool joins_next = end < frontier() && free().length_at(end).value != 0;
    if (joins_next) {
        const free_index::run joined = index_.remove_free(end);
        freed = {freed.start, freed.length + joined.length, freed.backed + joined.backed};
    }
    // This store frees; those below only clean the inside.
    entries_.store(freed.start, {extent_kind::free, freed.length});
    if (freed.start != one.start) {
        entries_.store(one.start, {});
    }
    if (joins_next) {
        entries_.store(end, {});
    }
    index_.add_free(freed);
}

void extent_map::unite_reserved(std::span<const extent> run) noexcept {
    pages length{};
    for (const extent& one : run) {
        index_.remove(one.start, extent_kind::reserved);
        length += one.length;
    }
    backing_.set_backed(run.front().start, length);
    unite({run.front().start, length, length});
    for (const extent& inside : run.subspan(1)) {
        entries_.store(inside.start, {});
    }
}

/// The one store that changes the length. False where another thread frees the extent at this moment, by mistake.
bool extent_map::change_length(pages start, const page_entry& now, pages wanted) const noexcept {
    return entries_.replace(start, segment::encode(now), {now.kind, wanted, now.type});
}

bool extent_map::extend(pages start, const page_entry& now, pages wanted) noexcept {
    const pages end = start + now.length;
    const pages more = wanted - now.length;
    const free_index::run taken = index_.remove_free(end);
    if (const pages rest = taken.length - more; rest.value != 0) {
        entries_.store(end + more, {extent_kind::free, rest});  // inside the free extent until the next store
        index_.add_free({end + more, rest, taken.backed - more});
    }
    if (!change_length(start, now, wanted)) {
        unite({end, more, more});
        return false;
    }
    entries_.store(end, {});
    return true;
}

bool extent_map::trim(pages start, const page_entry& now, pages wanted) noexcept {
    const pages cut_off = now.length - wanted;
    if (cut_off.value == 0) {
        return true;
    }
    const pages end = start + wanted;
    const pages behind = start + now.length < frontier() ? free().length_at(start + now.length) : pages{};
    entries_.store(end, {extent_kind::free, cut_off + behind});  // inside the used extent until the next store
    if (!change_length(start, now, wanted)) {
        return false;
    }
    backing_.set_backed(end, cut_off);
    unite({end, cut_off, cut_off});
    return true;
}

std::optional<extent> extent_map::claim(pages start, pages least, pages most) noexcept {
    const pages limit = frontier();
    if (start >= limit || !index_.starts_at(start)) {
        return std::nullopt;
    }
    const std::uint64_t word = entries_.load(start);
    const page_entry entry = segment::decode_page_entry(word);
    if (entry.kind != extent_kind::used || entry.length < least || entry.length > most) {
        return std::nullopt;
    }
    const pages end = start + entry.length;
    if (end > limit || (end < limit && !index_.starts_at(end))) {
        return std::nullopt;  // another thread unites the neighbour, or media are corrupt
    }
    if (!entries_.replace(start, word, {extent_kind::reserved, entry.length})) {
        return std::nullopt;
    }
    return extent{start, entry.length, extent_kind::reserved};
}

void extent_map::make_slab(pages start) noexcept {
    entries_.store(start, {extent_kind::slab, {base::pages_per_granule}, 0});
    index_.recount(extent_kind::reserved, extent_kind::slab);
}

void extent_map::append(pages new_frontier, pages not_holes) noexcept {
    const pages old_frontier = frontier();
    free_index::run grown{old_frontier, new_frontier - old_frontier, not_holes};
    if (const pages tail = free().length_before(old_frontier); tail.value != 0) {
        const free_index::run before = index_.remove_free(old_frontier - tail);
        grown = {before.start, before.length + grown.length, before.backed + grown.backed};
    }
    entries_.store(grown.start, {extent_kind::free, grown.length});
    index_.add_free(grown);
    set_frontier(new_frontier);
}

void extent_map::cut(pages to) noexcept {
    const pages end = frontier();
    free_index::run tail = index_.remove_free(end - free().length_before(end));
    const pages gone = end - to;
    tail.backed -= backing_.not_holes(to, gone);
    tail.length -= gone;
    backing_.forget_backed(to, gone);
    backing_.forget_holes(to, gone);
    if (tail.length.value != 0) {
        entries_.store(tail.start, {extent_kind::free, tail.length});
        index_.add_free(tail);
    } else {
        entries_.store(tail.start, {});
    }
    set_frontier(to);
}

std::optional<extent> extent_map::containing(pages page) const noexcept {
    if (page >= frontier()) {
        return std::nullopt;
    }
    const auto start = index_.last_start_up_to(page);
    return start ? std::optional(entries_.extent_at(*start)) : std::nullopt;
}

std::size_t extent_map::copy_some(pages& position, some_extents& some) const noexcept {
    std::size_t copied = 0;
    while (copied < some.size() && position < frontier()) {
        if (!index_.starts_at(position)) {  // united with the extent before it since the last call
            ++position.value;
            continue;
        }
        const extent found = entries_.extent_at(position);
        some.at(copied++) = found;
        position += pages{std::max<std::uint64_t>(found.length.value, 1)};
    }
    return copied;
}

}  // namespace holdfast::extent
