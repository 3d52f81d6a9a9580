#include "slab/pool/guard_ranges.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "base/units.hpp"

namespace holdfast::slab {

using base::granule;

namespace {

constexpr base::pages length{base::pages_per_granule};

}  // namespace

std::atomic<std::uint64_t> guard_ranges::in_process{0};

guard_ranges::~guard_ranges() { in_process.fetch_sub(count(), std::memory_order_relaxed); }

base::result<void> guard_ranges::start(segment::page_access& access, segment::page_access::rights left,
                                       std::uint64_t granules) {
    HF_TRY_ASSIGN(words_,
                  base::sparse_table<std::uint64_t>::create(base::divide_up(granules, bits), "guard ranges of slabs"));
    granules_ = granules;
    left_ = left;
    limit_.store(access.most_ranges(), std::memory_order_relaxed);
    access_ = &access;
    return {};
}

bool guard_ranges::contains(granule range) const noexcept {
    return range.value < granules_ && (word_of(range).load(std::memory_order_acquire) & bit_of(range)) != 0;
}

base::result<void> guard_ranges::protect(granule range) const {
    return access_->protect(base::first_page(range), length, left_);
}

void guard_ranges::insert(granule range) noexcept {
    std::uint64_t end = end_.load(std::memory_order_relaxed);
    while (end <= range.value && !end_.compare_exchange_weak(end, range.value + 1, std::memory_order_relaxed)) {
    }
    count_.fetch_add(1, std::memory_order_relaxed);
    in_process.fetch_add(1, std::memory_order_relaxed);
    word_of(range).fetch_or(bit_of(range), std::memory_order_acq_rel);
}

/// Of several threads that try, one succeeds.
bool guard_ranges::erase(granule range) noexcept {
    if (!contains(range) ||
        (word_of(range).fetch_and(~bit_of(range), std::memory_order_acq_rel) & bit_of(range)) == 0) {
        return false;
    }
    count_.fetch_sub(1, std::memory_order_relaxed);
    in_process.fetch_sub(1, std::memory_order_relaxed);
    return true;
}

bool guard_ranges::add(granule range) noexcept {
    try {
        if (const auto is_protected = protect(range); !is_protected) {
            set_limit(in_process.load(std::memory_order_relaxed));
            return false;
        }
    } catch (const std::bad_alloc&) {
        return false;
    }
    insert(range);
    return true;
}

bool guard_ranges::remove(granule range) noexcept {
    if (!erase(range)) {
        return false;
    }
    try {
        if (access_->unprotect(base::first_page(range), length)) {
            return true;
        }
    } catch (const std::bad_alloc&) {  // no memory for the failure's text
    }
    insert(range);  // still inaccessible: stays until the heap is closed
    return false;
}

std::optional<granule> guard_ranges::remove_any() noexcept {
    const std::uint64_t end = end_.load(std::memory_order_relaxed);
    for (granule range{0}; range.value < end && count() != 0;) {
        const std::uint64_t rest = word_of(range).load(std::memory_order_relaxed) >> (range.value % bits);
        if (rest == 0) {
            range.value = base::align_down(range.value, bits) + bits;
            continue;
        }
        range.value += static_cast<std::uint64_t>(std::countr_zero(rest));
        if (remove(range)) {
            return range;
        }
        ++range.value;
    }
    return std::nullopt;
}

void guard_ranges::renew(base::pages from, base::pages end, base::function_ref<void(granule)> lost) noexcept {
    for_each([&](granule range) {
        if (base::first_page(range) < from || base::first_page(range) >= end) {
            return;
        }
        bool is_protected = false;
        try {
            is_protected = protect(range).ok();
        } catch (const std::bad_alloc&) {  // no memory for the failure's text
        }
        if (!is_protected && erase(range)) {
            lost(range);
        }
    });
}

void guard_ranges::for_each(base::function_ref<void(granule)> each) const {
    const std::uint64_t end = end_.load(std::memory_order_relaxed);
    for (std::uint64_t first = 0; first < end; first += bits) {
        for (std::uint64_t left = word_of({first}).load(std::memory_order_acquire); left != 0; left &= left - 1) {
            each({first + static_cast<std::uint64_t>(std::countr_zero(left))});
        }
    }
}

}  // namespace holdfast::slab
