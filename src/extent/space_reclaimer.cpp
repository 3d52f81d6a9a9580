#include "extent/space_reclaimer.hpp"

#include <algorithm>
#include <new>

namespace holdfast::extent {

using base::pages;
using base::result;
using segment::extent_kind;

void space_reclaimer::set_decay(std::uint64_t total_ns, extent_decay::clock_function clock) {
    const base::scoped_lock lock(mutex_);
    decay_.start(total_ns, clock);
}

/// Frees the extent afterwards. No lock is held while the file system works.
bool space_reclaimer::give_back_reserved(const free_index::run& taken) noexcept {
    free_index::run one = taken;
    const bool written_back = disk_.may_go();
    bool gone = false;
    try {
        gone = written_back && growth_.give_back(one.start, one.length).ok();
    } catch (const std::bad_alloc&) {  // the result is unknown
        gone = false;
    }
    const base::scoped_lock lock(mutex_);
    map_.index().remove(one.start, extent_kind::reserved);
    if (gone) {
        map_.backing().set_hole(one.start, one.length);
        given_back_ += one.backed;
        one.backed = {};
    } else if (written_back) {
        map_.backing().forget_backed(one.start, one.length);
    }
    map_.unite(one);
    return gone;
}

/// Gives back a part at a time: other threads must not grow the heap for want of these pages. `decayed_only`: only
/// where more is backed than may stay.
bool space_reclaimer::give_back_oldest(bool decayed_only) noexcept {
    free_index::run one;
    {
        const base::scoped_lock lock(mutex_);
        const auto oldest = map_.free().oldest_backed();
        if (!oldest || (decayed_only && map_.free().backed() <= decay_.may_stay())) {
            behind_.store(false, std::memory_order_relaxed);
            return false;
        }
        one = map_.reserve_backed_end(*oldest, huge_length);
    }
    return give_back_reserved(one);
}

void space_reclaimer::after_free(const free_index::run& huge, bool due) noexcept {
    if (huge.length.value != 0) {
        static_cast<void>(give_back_reserved(huge));  // where it fails, the extent decays like others
    }
    if (due || behind_.load(std::memory_order_relaxed)) {
        constexpr std::uint64_t at_once = 4;
        decay(at_once);
    }
}

bool space_reclaimer::decay(std::uint64_t most) noexcept {
    if (!growth_.gives_back_at_once() || !giving_back_.try_lock()) {
        return false;
    }
    {
        const base::scoped_lock lock(mutex_);
        if (decay_.step(map_.free().backed())) {
            behind_.store(true, std::memory_order_relaxed);
        }
    }
    while (most > 0 && behind_.load(std::memory_order_relaxed) && give_back_oldest(true)) {
        --most;
    }
    giving_back_.unlock();
    return behind_.load(std::memory_order_relaxed);
}

result<pages> space_reclaimer::give_back(pages wanted) {
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

bool space_reclaimer::is_due() const noexcept {
    const base::scoped_lock lock(mutex_);
    return decay_.enabled() && decay_.is_due() && map_.free().backed() != pages{};
}

std::vector<extent> space_reclaimer::to_give_back(bool all) {
    const base::scoped_lock lock(mutex_);
    std::vector<extent> going;
    if (!all && !decay_.enabled()) {
        return going;
    }
    pages backed = map_.free().backed();
    const pages may_stay = all ? pages{} : decay_.limit(backed);
    const pages end = map_.frontier();
    map_.free().for_each_backed([&](const free_index::run& one) {
        const bool huge = one.backed >= huge_length && one.start + one.length != end;
        if (backed > may_stay || huge) {
            going.push_back({one.start, one.length, extent_kind::free});
            backed -= one.backed;
        }
    });
    std::ranges::sort(going, {}, &extent::start);
    return going;
}

void space_reclaimer::gave_back(const std::vector<extent>& gone) noexcept {
    const base::scoped_lock lock(mutex_);
    for (const extent& one : gone) {
        HF_ASSERT(map_.free().length_at(one.start) == one.length);
        map_.backing().set_hole(one.start, one.length);
        given_back_ += map_.index().remove_all_backed(one.start);
    }
}

result<pages> space_reclaimer::shrink(pages keep, base::function_ref<bool()> written_back) {
    const base::scoped_lock giving(giving_back_);
    const base::scoped_lock lock(mutex_);
    if (end_.excess(keep).value == 0 || !growth_.gives_back_at_once() || !written_back()) {
        return pages{};
    }
    const pages gone = end_.shorten(keep);
    if (auto shrunk = growth_.shrink(map_.frontier()); !shrunk) {
        end_.restore();
        return std::move(shrunk).error();
    }
    return gone;
}

pages space_reclaimer::shrink_for_commit(pages keep) noexcept {
    const base::scoped_lock lock(mutex_);
    return end_.shorten(keep);
}

void space_reclaimer::unshrink() noexcept {
    const base::scoped_lock lock(mutex_);
    end_.restore();
}

void space_reclaimer::for_each_backed(extent_visitor each) const {
    const base::scoped_lock lock(mutex_);
    map_.free().for_each_backed([&each](const free_index::run& one) {
        each({one.start, one.length, extent_kind::free});
    });
}

pages space_reclaimer::backed_free_pages() const {
    const base::scoped_lock lock(mutex_);
    return map_.free().backed();
}

}  // namespace holdfast::extent
