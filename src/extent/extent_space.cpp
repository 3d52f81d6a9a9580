// The space on disk of free extents: what decays, what is given back, what is reserved again, where the heap ends.
#include <algorithm>

#include "base/checked.hpp"
#include "extent/extent.hpp"

namespace holdfast::extent {

using base::failure;
using base::failure_code;
using base::pages;
using base::result;
using segment::extent_kind;

void extent_allocator::note_backed(pages start, pages length) noexcept {
    backed_.set(start, length);
    holes_.clear(start, length);
}

void extent_allocator::note_hole(pages start, pages length) noexcept {
    backed_.clear(start, length);
    holes_.set(start, length);
}

/// Reserves space on disk for the `length` pages at the place, and for some more of the same free extent.
result<void> extent_allocator::back(const free_index::placement& place, pages length) {
    if (backed_.all(place.at, length)) {
        return {};
    }
    // Reserve more than is needed: a hole that comes into use again is mostly used from end to end.
    const auto [least, most] = growth_.reserve_steps();
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

/// Reserves space for the place; where the disk is full, returns another place that has space.
result<free_index::placement> extent_allocator::backed_place(const free_index::placement& place, pages length,
                                                             pages alignment) {
    auto taken = back(place, length);
    if (taken) {
        // Parts of the free extent may have been given back meanwhile, so look it up again.
        return free_index::placement{{place.in.start, free_.length_at(place.in.start), {}}, place.at};
    }
    if (is_full_disk(taken.error())) {
        if (const auto other = find_backed(length, alignment)) {
            return *other;
        }
    }
    return std::move(taken).error();
}

/// Looks at all free extents: on a full disk the best fit may be a hole while others are backed.
std::optional<free_index::placement> extent_allocator::find_backed(pages length, pages alignment) const {
    std::optional<free_index::placement> found;
    free_.for_each_backed([&](const free_index::run& one) HF_NO_THREAD_SAFETY_ANALYSIS {  // locked by the caller
        if (found || one.backed < length) {
            return;
        }
        const pages end = one.start + one.length;
        pages at{base::align_up(one.start.value, alignment.value)};
        while (!found && at + length <= end) {
            const pages last = at + length - pages{1};
            const pages gap = backed_.last_clear_up_to(last);
            if (gap < at) {
                found = free_index::placement{one, at};
            } else {
                at = {base::align_up(gap.value + 1, alignment.value)};
            }
        }
    });
    return found;
}

/// Reserves space for [from, end) of the free extent that starts at `whole`.
result<void> extent_allocator::back_range(pages whole, pages from, pages end) {
    // Where this fails, it is unknown which pages are reserved.
    free_index::run changed = free_.erase(whole);
    changed.backed += holes_.count(from, end - from);
    holes_.clear(from, end - from);
    free_.insert(changed);
    HF_TRY(growth_.take_back(from, end - from));
    backed_.set(from, end - from);
    return {};
}

result<void> extent_allocator::back_used(pages start, pages length) {
    const base::scoped_lock lock(mutex_);
    auto taken = growth_.take_back(start, length);
    while (!taken && is_full_disk(taken.error()) && make_space(length, {})) {
        taken = growth_.take_back(start, length);
    }
    return taken;
}

void extent_allocator::give_back_part(pages whole, pages from, pages end) {
    const pages length = end - from;
    if (length.value == 0 || holes_.count(from, length) == length || !may_go() || !growth_.give_back(from, length)) {
        return;
    }
    free_index::run changed = free_.erase(whole);
    changed.backed -= length - holes_.count(from, length);
    note_hole(from, length);
    free_.insert(changed);
}

/// The disk is full: gives back free extents, except for the one that starts at `spared`, until it has given back
/// `wanted` pages. False where it could give back nothing.
bool extent_allocator::make_space(pages wanted, pages spared) {
    if (!growth_.gives_back_at_once() || !may_go()) {
        return false;
    }
    pages gone{};
    for (std::uint64_t left = free_.count(); left > 0 && gone < wanted; --left) {
        const auto oldest = free_.oldest_backed();
        if (!oldest) {
            break;
        }
        free_index::run one = free_.erase(oldest->start);
        if (one.start != spared && growth_.give_back(one.start, one.length)) {
            note_hole(one.start, one.length);
            gone += one.backed;
            one.backed = {};
        }
        free_.insert(one);  // still backed, so it becomes the youngest
    }
    return gone.value != 0;
}

void extent_allocator::set_decay(std::uint64_t total_ns, clock_function clock) {
    const base::scoped_lock lock(mutex_);
    clock_ = clock;
    fades_at_once_ = total_ns == 0;
    decay_.start(total_ns, clock());
}

/// Gives back a reserved extent, which is free afterwards. Meanwhile no other thread has it, and no lock is held while
/// the file system works.
bool extent_allocator::give_back_reserved(const free_index::run& taken) noexcept {
    free_index::run one = taken;
    const bool settled = may_go();
    bool gone = false;
    try {
        gone = settled && growth_.give_back(one.start, one.length).ok();
    } catch (const std::bad_alloc&) {  // no memory for a failure's text; the result is unknown
        gone = false;
    }
    const base::scoped_lock lock(mutex_);
    remove(one.start, extent_kind::reserved);
    if (gone) {
        note_hole(one.start, one.length);
        given_back_ += one.backed;
        one.backed = {};
    } else if (settled) {
        backed_.clear(one.start, one.length);
    }
    unite(one);
    return gone;
}

/// Gives back the oldest backed extent; `faded_only`: only where more has decayed than was given back.
bool extent_allocator::give_back_oldest(bool faded_only) noexcept {
    free_index::run one;
    {
        const base::scoped_lock lock(mutex_);
        const auto oldest = free_.oldest_backed();
        if (!oldest || (faded_only && free_.backed().value <= may_stay_)) {
            behind_.store(false, std::memory_order_relaxed);
            return false;
        }
        one = reserve_backed_end(*oldest);
    }
    return give_back_reserved(one);
}

/// Makes the last backed pages of a free extent a reserved extent; not too many at once, so that other threads do not
/// grow the heap because these pages are being given back.
free_index::run extent_allocator::reserve_backed_end(const free_index::run& from) noexcept {
    const free_index::run whole = remove_free(from.start);
    const pages end{holes_.last_clear_up_to(whole.start + whole.length - pages{1}).value + 1};
    const pages start{std::max(whole.start.value, end.value - std::min(end.value, huge_length.value))};
    const free_index::run one{start, end - start, end - start - holes_.count(start, end - start)};
    const pages behind = whole.start + whole.length - end;  // all of them holes
    if (behind.value != 0) {
        store(end, {extent_kind::free, behind});
        add_free({end, behind, {}});
    }
    store(start, {extent_kind::reserved, one.length});
    add({start, one.length, extent_kind::reserved});
    if (start != whole.start) {
        store(whole.start, {extent_kind::free, start - whole.start});
        add_free({whole.start, start - whole.start, whole.backed - one.backed});
    }
    return one;
}

bool extent_allocator::is_due() noexcept { return clock_ != nullptr && decay_.is_due(clock_()); }

/// Comes after a free. Does a little, so that no free takes long.
void extent_allocator::decay_if(bool due) noexcept {
    if (due || behind_.load(std::memory_order_relaxed)) {
        constexpr std::uint64_t at_once = 4;
        decay(at_once);
    }
}

void extent_allocator::decay(std::uint64_t most) noexcept {
    if (clock_ == nullptr || !growth_.gives_back_at_once() || !giving_back_.try_lock()) {
        return;
    }
    {
        const base::scoped_lock lock(mutex_);
        const std::uint64_t now = clock_();
        if (decay_.is_due(now)) {
            may_stay_ = decay_.limit(now, free_.backed().value);
            behind_.store(true, std::memory_order_relaxed);
        }
    }
    while (most > 0 && behind_.load(std::memory_order_relaxed) && give_back_oldest(true)) {
        --most;
    }
    giving_back_.unlock();
}

result<pages> extent_allocator::give_back(pages wanted) {
    pages before{};
    if (!growth_.gives_back_at_once()) {
        return before;
    }
    const base::scoped_lock giving(giving_back_);
    {
        const base::scoped_lock lock(mutex_);
        before = given_back_;
    }
    pages now = before;
    while (now - before < wanted && give_back_oldest(false)) {
        const base::scoped_lock lock(mutex_);
        now = given_back_;
    }
    return now - before;
}

std::vector<extent> extent_allocator::to_give_back(bool all) {
    const base::scoped_lock lock(mutex_);
    std::vector<extent> going;
    if (!all && (clock_ == nullptr || !decay_.enabled())) {
        return going;
    }
    const std::uint64_t may_stay = all ? 0 : decay_.limit(clock_(), free_.backed().value);
    std::uint64_t backed = free_.backed().value;
    const pages end = frontier();
    free_.for_each_backed([&](const free_index::run& one) {
        const bool huge = one.backed >= huge_length && one.start + one.length != end;
        if (backed > may_stay || huge) {
            going.push_back({one.start, one.length, extent_kind::free});
            backed -= one.backed.value;
        }
    });
    std::ranges::sort(going, {}, &extent::start);
    return going;
}

void extent_allocator::gave_back(const std::vector<extent>& gone) noexcept {
    const base::scoped_lock lock(mutex_);
    for (const extent& one : gone) {
        HF_ASSERT(free_.length_at(one.start) == one.length);
        free_index::run run = free_.erase(one.start);
        note_hole(run.start, run.length);
        given_back_ += run.backed;
        run.backed = {};
        free_.insert(run);
    }
}

/// The page at which the heap can end.
pages extent_allocator::shorter(pages keep) const noexcept {
    const pages end = frontier();
    const pages tail = free_.length_before(end);
    const std::uint64_t unit = growth_.unit().value;
    const std::uint64_t wanted = base::align_up((end - tail).value + std::min(keep, tail).value, unit);
    return {std::clamp(wanted, unit, end.value)};
}

/// Makes the space end at `to`, which is in the free extent at its end, or is that end.
void extent_allocator::end_at(pages to) noexcept {
    const pages end = frontier();
    free_index::run tail = remove_free(end - free_.length_before(end));
    const pages cut = end - to;
    tail.backed -= cut - holes_.count(to, cut);
    tail.length -= cut;
    backed_.clear(to, cut);
    holes_.clear(to, cut);
    if (tail.length.value != 0) {
        store(tail.start, {extent_kind::free, tail.length});
        add_free(tail);
    } else {
        store(tail.start, {});
    }
    frontier_.store(to.value, std::memory_order_release);
}

result<pages> extent_allocator::shrink(pages keep, base::function_ref<bool()> settled) {
    const base::scoped_lock giving(giving_back_);
    const base::scoped_lock lock(mutex_);
    const pages end = frontier();
    const pages to = shorter(keep);
    if (to == end || !growth_.gives_back_at_once() || (!HF_MUTANT("extent.shrink.settle") && !settled())) {
        return pages{};
    }
    end_at(to);
    if (auto shrunk = growth_.shrink(to); !shrunk) {
        adopt(growth_.frontier(), false);
        return std::move(shrunk).error();
    }
    return end - to;
}

pages extent_allocator::shrink_for_commit(pages keep) noexcept {
    const base::scoped_lock lock(mutex_);
    const pages end = frontier();
    const pages to = shorter(keep);
    if (to != end) {
        end_at(to);
    }
    return end - to;
}

void extent_allocator::unshrink() noexcept {
    const base::scoped_lock lock(mutex_);
    adopt(growth_.frontier(), false);
}

void extent_allocator::for_each_backed(visitor each) const {
    const base::scoped_lock lock(mutex_);
    free_.for_each_backed([&each](const free_index::run& one) { each({one.start, one.length, extent_kind::free}); });
}

pages extent_allocator::backed_free_pages() const {
    const base::scoped_lock lock(mutex_);
    return free_.backed();
}

}  // namespace holdfast::extent
