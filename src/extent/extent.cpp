#include "extent/extent.hpp"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "base/units.hpp"
#include "extent/extent_checker.hpp"
#include "extent/extent_open.hpp"

namespace holdfast::extent {

using base::failure_code;
using base::pages;
using base::result;
using segment::extent_kind;
using segment::page_entry;

result<void> extent_allocator::format() {
    const base::scoped_lock lock(mutex_);
    const pages frontier = growth_.frontier();
    if (frontier.value <= base::pages_per_granule) {
        return make_failure(failure_code::invalid_argument, "first region", fmt::format("{} pages", frontier.value),
                            fmt::format("more than {} pages", base::pages_per_granule));
    }
    unwritten_ = {};
    HF_TRY(map_.reset());
    remote_.reset(map_.layout());
    map_.format(frontier, std::min(growth_.backed_end(), frontier) - pages{base::pages_per_granule});
    return {};
}

result<void> extent_allocator::open(pages frontier, visitor each) {
    const base::scoped_lock lock(mutex_);
    unwritten_ = {};
    shown_ = {};
    remote_.reset(map_.layout());
    return open_extents(map_, frontier, each, unwritten_);
}

void extent_allocator::write_opened() noexcept {
    const base::scoped_lock lock(mutex_);
    for (const extent& gap : unwritten_) {
        map_.entries().write_gap(gap.start, gap.length);
    }
    unwritten_ = {};
}

/// Gaps are looked through once, however often a reader goes on.
void show_opened(extent_allocator& of) {
    const base::scoped_lock lock(of.mutex_);
    std::vector<extent_allocator::shown_entry> found;
    for (const extent& gap : of.unwritten_) {
        const std::uint64_t whole = segment::encode({extent_kind::free, gap.length});
        for (pages at = gap.start; at < gap.start + gap.length; ++at.value) {
            if (const std::uint64_t word = of.map_.entries().load(at); word != 0) {  // most are, and stay so
                found.push_back({at, word, at == gap.start ? whole : 0});
            }
        }
    }
    if (!found.empty()) {
        of.shown_ = std::move(found);
        of.unwritten_ = {};
    }
    for (const extent_allocator::shown_entry& each : of.shown_) {
        of.map_.entries().put(each.at, each.shown);
    }
}

void take_back_opened(extent_allocator& of) noexcept {
    const base::scoped_lock lock(of.mutex_);
    for (const extent_allocator::shown_entry& each : of.shown_) {
        of.map_.entries().put(each.at, each.before);
    }
}

result<void> extent_allocator::recover(pages frontier, visitor each, unsigned parts) {
    const base::scoped_lock lock(mutex_);
    unwritten_ = {};
    remote_.reset(map_.layout());
    return recover_extents(map_, frontier, each, parts);
}

/// Before the heap grows, what caches keep is fetched without the lock.
template <class Take>
std::invoke_result_t<Take, const free_index::placement&> extent_allocator::take_at_place(pages length, pages alignment,
                                                                                         std::uint32_t node,
                                                                                         Take take) {
    if (reclaim_callback_) {
        {
            const base::scoped_lock lock(mutex_);
            if (const auto place = places_.find_present(length, alignment, node)) {
                return take(*place);
            }
        }
        (*reclaim_callback_)();
    }
    const base::scoped_lock lock(mutex_);
    HF_TRY_ASSIGN(const free_index::placement place, places_.find(length, alignment, node));
    return take(place);
}

result<pages> extent_allocator::allocate(pages length, pages alignment, extent_kind kind, std::uint32_t type,
                                         std::uint32_t node) {
    const page_entry wanted{kind, length, type};
    if (length.value == 0 || !base::is_power_of_two(alignment.value) || alignment.value > maximum_alignment ||
        (kind != extent_kind::used && kind != extent_kind::slab && kind != extent_kind::reserved) ||
        wanted.type >= segment::type_limit || (wanted.type != 0 && kind != extent_kind::used)) {
        return make_failure(
            failure_code::invalid_argument, "extent",
            fmt::format("{} pages at a multiple of {}, of type {}", length.value, alignment.value, wanted.type),
            fmt::format("at least 1 page, alignment a power of two up to {}, a type of used ones alone",
                        maximum_alignment));
    }
    // take_at_place() calls it under the lock
    const auto take = [&](const free_index::placement& place)
                          HF_NO_THREAD_SAFETY_ANALYSIS { return places_.take(place, alignment, wanted); };
    return take_at_place(length, alignment, node, take);
}

std::size_t extent_allocator::allocate_some(pages length, std::span<pages> out, std::uint32_t node) noexcept {
    HF_ASSERT(length.value != 0 && !out.empty());
    // take_at_place() calls it under the lock
    const auto take = [&](const free_index::placement& place) HF_NO_THREAD_SAFETY_ANALYSIS -> result<std::size_t> {
        return places_.take_some(place, length, out, node);
    };
    try {
        const auto taken = take_at_place(length, {1}, node, take);
        return taken ? *taken : 0;
    } catch (const std::bad_alloc&) {  // no memory for a failure's text
        return 0;
    }
}

result<void> extent_allocator::allocate_adjacent(pages length, pages alignment, std::span<pages> out,
                                                 std::uint32_t node) {
    HF_ASSERT(length.value != 0 && !out.empty());
    // take_at_place() calls it under the lock
    const auto take = [&](const free_index::placement& place)
                          HF_NO_THREAD_SAFETY_ANALYSIS { return places_.take_adjacent(place, alignment, length, out); };
    return take_at_place({length.value * out.size()}, alignment, node, take);
}

result<void> extent_allocator::free(pages start, extent_kind kind, bool backed) {
    free_index::run huge{};  // to be given back without the lock
    bool due = false;
    {
        const base::scoped_lock lock(mutex_);
        const bool may_be_taken = kind == extent_kind::used && remote_.active() && start < map_.frontier();
        const auto taken_failure = [start] {
            return make_failure(failure_code::bad_address, fmt::format("page {}", start.value),
                                "a block that another thread frees, or has", "the start of an allocated block");
        };
        if (may_be_taken && remote_.is_taken(start)) {
            return taken_failure();
        }
        HF_TRY_ASSIGN(const pages length, map_.withdraw(start, kind));
        if (may_be_taken && remote_.is_taken(start)) {
            map_.index().add(start, extent_kind::reserved);  // as it was, and a merge's
            return taken_failure();
        }
        if (length >= huge_length && growth_.gives_back_at_once() && decay_.enabled() &&
            map_.free().backed() + length > growth_.may_linger()) {
            map_.index().add(start, extent_kind::reserved);
            huge = {start, length, length};
        } else {
            if (backed) {
                map_.backing().set_backed(start, length);
            } else {
                map_.backing().forget_backed(start, length);  // from its last time as a free extent
            }
            map_.unite({start, length, length});
        }
        due = decay_.is_due();
    }
    space_.after_free(huge, due);
    return {};
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
                map_.unite_reserved(some.subspan(first, end - first));
            }
            first = end;
        }
        due = decay_.is_due();
    }
    space_.after_free({}, due);
}

bool extent_allocator::resize(pages start, pages wanted) {
    const base::scoped_lock lock(mutex_);
    if (wanted.value == 0 || map_.refusal(start, extent_kind::used) || (remote_.active() && remote_.is_taken(start))) {
        return false;
    }
    const page_entry now = segment::decode_page_entry(map_.entries().load(start));
    if (wanted <= now.length) {
        return map_.trim(start, now, wanted);
    }
    return places_.make_room_behind(start, now.length, wanted) && map_.extend(start, now, wanted);
}

result<void> extent_allocator::back_used(pages start, pages length) {
    const base::scoped_lock lock(mutex_);
    return disk_.back_used(start, length);
}

void extent_allocator::slab_made(pages start) noexcept {
    const base::scoped_lock lock(mutex_);
    map_.make_slab(start);
}

void extent_allocator::slab_withdrawn() noexcept {
    const base::scoped_lock lock(mutex_);
    map_.index().recount(extent_kind::slab, extent_kind::reserved);
}

std::optional<extent> extent_allocator::containing(pages page) const {
    std::optional<extent> found;
    {
        const base::scoped_lock lock(mutex_);
        found = map_.containing(page);
    }
    if (found) {
        remote_.show(*found);
    }
    return found;
}

pages extent_allocator::largest_free() const {
    const base::scoped_lock lock(mutex_);
    return map_.free().largest();
}

pages extent_allocator::free_pages() const {
    const base::scoped_lock lock(mutex_);
    return map_.free().total();
}

std::uint64_t extent_allocator::count(extent_kind kind) const {
    if (kind == extent_kind::used || kind == extent_kind::reserved) {
        std::uint64_t found = 0;
        for_each([&](const extent& one) { found += one.kind == kind ? 1 : 0; });
        return found;
    }
    const base::scoped_lock lock(mutex_);
    return map_.index().counts()[kind];
}

void extent_allocator::for_each(visitor each) const {
    extent_map::some_extents some;
    pages position{};
    const auto copy = [&] {
        const base::scoped_lock lock(mutex_);
        return map_.copy_some(position, some);
    };
    while (const std::size_t copied = copy()) {
        for (std::size_t i = 0; i < copied; ++i) {
            remote_.show(some.at(i));
            each(some.at(i));
        }
    }
}

void extent_allocator::for_each_free(visitor each) const {
    for_each([&each](const extent& found) {
        if (found.kind == extent_kind::free) {
            each(found);
        }
    });
}

result<void> extent_allocator::check_entries(pages first, pages count) const {
    const base::scoped_lock lock(mutex_);
    return extent_checker(map_).check_entries(first, count);
}

void extent_allocator::check(std::vector<std::string>& problems) const {
    const base::scoped_lock lock(mutex_);
    extent_checker(map_).check(problems);
    remote_.check(problems, map_.frontier());
}

}  // namespace holdfast::extent
