// Operations for caches of free extents: on several extents under one lock, and on one without a lock.
#include <algorithm>
#include <new>

#include "extent/extent.hpp"

namespace holdfast::extent {

using base::pages;
using base::result;
using segment::extent_kind;
using segment::page_entry;

std::size_t extent_allocator::allocate_some(pages length, std::span<pages> out, std::uint32_t node) noexcept {
    HF_ASSERT(length.value != 0 && !out.empty());
    try {
        if (fetch_hoard_) {
            {
                const base::scoped_lock lock(mutex_);
                if (const auto place = free_place(length, {1}, node)) {
                    return allocate_some_at(*place, length, out, node);
                }
            }
            (*fetch_hoard_)();
        }
        const base::scoped_lock lock(mutex_);
        const auto place = find_place(length, {1}, node);
        return place ? allocate_some_at(*place, length, out, node) : 0;
    } catch (const std::bad_alloc&) {  // no memory for a failure's text
        return 0;
    }
}

result<void> extent_allocator::allocate_adjacent(pages length, pages alignment, std::span<pages> out,
                                                 std::uint32_t node) {
    HF_ASSERT(length.value != 0 && !out.empty());
    const pages all{length.value * out.size()};
    const auto take = [&](const free_index::placement& place) HF_REQUIRES(mutex_) -> result<void> {
        HF_TRY_ASSIGN(const auto backed, backed_place(place, all, alignment));
        carve_some(backed, length, out);
        return {};
    };
    if (fetch_hoard_) {
        {
            const base::scoped_lock lock(mutex_);
            if (const auto place = free_place(all, alignment, node)) {
                return take(*place);
            }
        }
        (*fetch_hoard_)();
    }
    const base::scoped_lock lock(mutex_);
    HF_TRY_ASSIGN(const free_index::placement place, find_place(all, alignment, node));
    return take(place);
}

std::size_t extent_allocator::allocate_some_at(const free_index::placement& place, pages length, std::span<pages> out,
                                               std::uint32_t node) {
    pages end = place.in.start + place.in.length;
    if (is_local(node, length)) {
        end = std::max(place.at + length, std::min(end, layout_.segment_end(place.at)));
    }
    const std::size_t some = std::min<std::uint64_t>(out.size(), (end - place.at).value / length.value);
    if (!back(place, {some * length.value})) {
        // The disk is full, but one extent may still fit.
        const auto one = backed_place(place, length, {1});
        if (!one) {
            return 0;
        }
        carve_some(*one, length, out.first(1));
        return 1;
    }
    carve_some(place, length, out.first(some));
    return some;
}

/// Makes as many extents as `out` has room for, from the place on. The pages must be backed and suffice.
void extent_allocator::carve_some(const free_index::placement& place, pages length, std::span<pages> out) noexcept {
    const free_index::run whole = remove_free(place.in.start);
    const pages taken{length.value * out.size()};
    const pages front = place.at - whole.start;
    const pages front_backed = front - holes_.count(whole.start, front);
    const pages rest = whole.length - front - taken;
    if (rest.value != 0) {
        store(place.at + taken, {extent_kind::free, rest});
        add_free({place.at + taken, rest, whole.backed - taken - front_backed});
    }
    // The last store is that of the first extent: until then all of them lie inside the free one.
    for (std::size_t i = out.size(); i-- > 0;) {
        out[i] = place.at + pages{i * length.value};
        store(out[i], {extent_kind::reserved, length});
        add({out[i], length, extent_kind::reserved});
    }
    if (front.value != 0) {
        store(whole.start, {extent_kind::free, front});
        add_free({whole.start, front, front_backed});
    }
}

void extent_allocator::free_some(std::span<extent> some) noexcept {
    std::ranges::sort(some, {}, &extent::start);
    bool due = false;
    {
        const base::scoped_lock lock(mutex_);
        for (std::size_t first = 0; first < some.size();) {
            std::size_t end = first + 1;
            while (end < some.size() && some[end].start == some[end - 1].start + some[end - 1].length &&
                   is_reserved(some[end].start, some[end].length)) {
                ++end;
            }
            if (is_reserved(some[first].start, some[first].length)) {
                free_neighbours(some.subspan(first, end - first));
            }
            first = end;
        }
        due = is_due();
    }
    decay_if(due);
}

/// Makes one free extent of reserved extents, each of which begins where the one before ends.
void extent_allocator::free_neighbours(std::span<const extent> run) noexcept {
    pages length{};
    for (const extent& one : run) {
        remove(one.start, extent_kind::reserved);
        length += one.length;
    }
    note_backed(run.front().start, length);
    unite({run.front().start, length, length});
    for (const extent& inside : run.subspan(1)) {
        store(inside.start, {});
    }
}

std::optional<extent> extent_allocator::claim(pages start, pages least, pages most) noexcept {
    const pages limit = frontier();
    if (start >= limit || !starts_at_now(start)) {
        return std::nullopt;
    }
    std::uint64_t word = load(start);
    const page_entry entry = segment::decode_page_entry(word);
    if (entry.kind != extent_kind::used || entry.length < least || entry.length > most) {
        return std::nullopt;
    }
    const pages end = start + entry.length;
    if (end > limit || (end < limit && !starts_at_now(end))) {
        return std::nullopt;  // the neighbour is being united with another, or media are corrupt
    }
    if (!std::atomic_ref<std::uint64_t>(space_.page_entry_word(start))
             .compare_exchange_strong(word, segment::encode({extent_kind::reserved, entry.length}),
                                      std::memory_order_acq_rel)) {
        return std::nullopt;
    }
    return extent{start, entry.length, extent_kind::reserved};
}

void extent_allocator::hand_out(pages start, pages length, std::uint32_t type) noexcept {
    store(start, {extent_kind::used, length, type});
}

bool extent_allocator::is_reserved(pages start, pages length) const noexcept {
    return load(start) == segment::encode({extent_kind::reserved, length});
}

}  // namespace holdfast::extent
