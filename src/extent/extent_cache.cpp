#include "extent/extent_cache.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include <fmt/format.h>

namespace holdfast::extent {

using base::pages;
using base::result;
using segment::extent_kind;

namespace {

/// 8 MiB.
constexpr pages most_fetched{8 * base::mebibyte / base::page_size};

constexpr std::size_t index_of(pages length) noexcept { return length.value - least_cached.value; }
constexpr pages length_of(std::size_t index) noexcept { return {index + least_cached.value}; }

}  // namespace

result<void> extent_cache::reset() {
    const base::scoped_lock lock(mutex_);
    HF_TRY_ASSIGN(starts_, base::sparse_table<std::uint64_t>::create(lengths * depth, "cached extents"));
    used_ = {};
    counts_ = {};
    idle_ = {};
    total_ = missed_ = {};
    refill_ = 1;
    return {};
}

std::size_t extent_cache::next_used(std::size_t from) const noexcept {
    for (std::size_t word = from / 64; word < words; ++word) {
        const std::uint64_t here =
            used_[word] & (word == from / 64 ? ~std::uint64_t{0} << (from % 64) : ~std::uint64_t{0});
        if (here != 0) {
            return word * 64 + static_cast<std::size_t>(std::countr_zero(here));
        }
    }
    return lengths;
}

void extent_cache::removed(std::size_t index, std::size_t some) noexcept {
    counts_[index] = static_cast<std::uint16_t>(counts_[index] - some);
    idle_[index] = std::min(idle_[index], counts_[index]);
    total_ -= {some * length_of(index).value};
    if (counts_[index] == 0) {
        used_[index / 64] &= ~(std::uint64_t{1} << (index % 64));
    }
}

std::optional<extent> extent_cache::take(pages wanted, std::size_t& refill) noexcept {
    const pages longest{std::min(wanted.value + wanted.value / 8, most_cached.value)};
    const base::scoped_lock lock(mutex_);
    const std::size_t index = next_used(index_of(wanted));
    if (index > index_of(longest)) {
        refill_ = missed_ == wanted ? std::min(refill_ * 2, most_refilled) : 1;
        missed_ = wanted;
        refill = refill_;
        return std::nullopt;
    }
    const pages start{slot(index, counts_[index] - 1U)};
    removed(index, 1);
    return extent{start, length_of(index), extent_kind::reserved};
}

std::size_t extent_cache::take_oldest(std::size_t index, std::size_t most, std::span<extent> out) noexcept {
    const std::size_t some = std::min({std::size_t{counts_[index]}, most, out.size()});
    for (std::size_t i = 0; i < some; ++i) {
        out[i] = {{slot(index, i)}, length_of(index), extent_kind::reserved};
    }
    std::uint64_t* const first = &slot(index, 0);
    std::copy(first + some, first + counts_[index], first);
    removed(index, some);
    return some;
}

bool extent_cache::put(const extent& added) noexcept {
    const std::size_t index = index_of(added.length);
    const base::scoped_lock lock(mutex_);
    if (counts_[index] == depth) {
        return false;
    }
    slot(index, counts_[index]) = added.start.value;
    ++counts_[index];
    total_ += added.length;
    used_[index / 64] |= std::uint64_t{1} << (index % 64);
    return true;
}

std::size_t extent_cache::take_oldest(pages length, evicted_extents& out) noexcept {
    const base::scoped_lock lock(mutex_);
    return take_oldest(index_of(length), out.size(), out);
}

std::size_t extent_cache::take_any(std::span<extent> out) noexcept {
    const base::scoped_lock lock(mutex_);
    std::size_t taken = 0;
    for (std::size_t index = next_used(0); index < lengths && taken < out.size(); index = next_used(index)) {
        taken += take_oldest(index, depth, out.subspan(taken));
    }
    return taken;
}

std::size_t extent_cache::take_idle(std::span<extent> out) noexcept {
    const base::scoped_lock lock(mutex_);
    std::size_t taken = 0;
    for (std::size_t index = next_used(0); index < lengths && taken < out.size(); index = next_used(index + 1)) {
        const std::size_t idle = idle_[index];
        const std::size_t some = take_oldest(index, idle, out.subspan(taken));
        idle_[index] = static_cast<std::uint16_t>(idle - some);
        taken += some;
    }
    return taken;
}

void extent_cache::begin_period() noexcept {
    const base::scoped_lock lock(mutex_);
    idle_ = counts_;
}

pages extent_cache::total() const noexcept {
    const base::scoped_lock lock(mutex_);
    return total_;
}

bool extent_cache::contains(pages start) const noexcept {
    const base::scoped_lock lock(mutex_);
    for (std::size_t index = next_used(0); index < lengths; index = next_used(index + 1)) {
        const std::uint64_t* const first = &slot(index, 0);
        if (std::find(first, first + counts_[index], start.value) != first + counts_[index]) {
            return true;
        }
    }
    return false;
}

void extent_cache::append_to(std::vector<extent>& out) const {
    const base::scoped_lock lock(mutex_);
    for (std::size_t index = next_used(0); index < lengths; index = next_used(index + 1)) {
        for (std::size_t i = 0; i < counts_[index]; ++i) {
            out.push_back({{slot(index, i)}, length_of(index), extent_kind::reserved});
        }
    }
}

result<void> extent_caches::start(unsigned arenas) {
    try {
        caches_ = std::make_unique<extent_cache[]>(arenas);
    } catch (const std::bad_alloc&) {
        base::failure what;
        what.code = base::failure_code::out_of_memory;
        return what;
    }
    for (unsigned i = 0; i < arenas; ++i) {
        HF_TRY(caches_[i].reset());
    }
    arenas_ = arenas;
    extents_.set_reclaim_callback(base::function_ref<void()>(fetch_));
    return {};
}

std::optional<extent> extent_caches::take(unsigned arena, pages wanted) noexcept {
    extent_cache& cache = caches_[arena];
    std::size_t refill = 1;
    auto found = cache.take(wanted, refill);
    if (!found && remote_of(extents_).active()) {
        const std::uint32_t home = arena % extents_.nodes();
        if (remote_of(extents_).waiting(home).value != 0) {
            merge(arena, home);
            found = cache.take(wanted, refill);
        }
    }
    return found ? found : fetch(arena, wanted, refill);
}

std::optional<extent> extent_caches::take_aligned(unsigned arena, pages wanted, pages alignment) noexcept {
    extent_cache& cache = caches_[arena];
    std::size_t refill = 1;
    const auto found = cache.take(wanted, refill);
    if (found && found->start.value % alignment.value != 0) {
        keep(cache, *found);
        return std::nullopt;
    }
    return found;
}

/// The array on the stack would cost inlined callers more than all the rest.
[[gnu::noinline]] std::optional<extent> extent_caches::fetch(unsigned arena, pages wanted,
                                                             std::size_t refill) noexcept {
    std::array<pages, extent_cache::most_refilled> fresh;
    const std::size_t fit = std::min(refill, most_fetched.value / wanted.value);
    try {
        if (!admit(extents_, pages{wanted.value * fit})) {
            return std::nullopt;
        }
    } catch (const std::bad_alloc&) {  // no memory for the reason, which the caller asks for again
        return std::nullopt;
    }
    const std::size_t some = extents_.allocate_some(wanted, std::span(fresh).first(fit), arena % extents_.nodes());
    if (some == 0) {
        return std::nullopt;
    }
    for (std::size_t i = some; i-- > 1;) {  // so that the lowest is taken first
        keep(caches_[arena], {fresh[i], wanted, extent_kind::reserved});
    }
    return extent{fresh[0], wanted, extent_kind::reserved};
}

unsigned extent_caches::arena_of(unsigned arena, pages start) const noexcept {
    const unsigned nodes = extents_.nodes();
    return nodes == 1 ? arena : arena - arena % nodes + extents_.node_of(start);
}

void extent_caches::keep(extent_cache& cache, const extent& added) noexcept {
    if (!cache.put(added)) {
        replace_oldest(cache, added);
    }
}

[[gnu::noinline]] void extent_caches::replace_oldest(extent_cache& cache, const extent& added) noexcept {
    extent_cache::evicted_extents evicted;
    const std::size_t gone = cache.take_oldest(added.length, evicted);
    extents_.free_some(std::span(evicted).first(gone));
    if (!cache.put(added)) {  // other threads filled the cache
        std::array<extent, 1> one{added};
        extents_.free_some(one);
    }
}

void extent_caches::put(unsigned arena, const extent& freed) noexcept {
    if (!extents_.is_reserved(freed.start, freed.length)) {
        return;  // its page entry was overwritten; check() names it
    }
    keep(caches_[arena_of(arena, freed.start)], freed);
}

bool extent_caches::age(std::uint64_t now, unsigned times) noexcept {
    if (arenas_ == 0 || now < period_end_.load(std::memory_order_relaxed) || !releasing_.try_lock()) {
        return false;
    }
    const unsigned most = times * 4;
    for (unsigned done = 0; done < most && now >= period_end_.load(std::memory_order_relaxed); ++done) {
        release_some(now);
    }
    releasing_.unlock();
    return now >= period_end_.load(std::memory_order_relaxed);
}

void extent_caches::release_some(std::uint64_t now) noexcept {
    std::array<extent, extent_cache::evicted_at_once> some;
    if (const std::size_t taken = caches_[scan_cursor_].take_idle(some); taken != 0) {
        extents_.free_some(std::span(some).first(taken));
        return;
    }
    caches_[scan_cursor_].begin_period();
    if (++scan_cursor_ == arenas_) {
        scan_cursor_ = 0;
        merge_what_waits();
        period_end_.store(now + decay_curve::step_ns, std::memory_order_relaxed);
    }
}

/// A home whose threads sleep, or that has none, would never merge: its memory would neither serve nor decay.
void extent_caches::merge_what_waits() noexcept {
    const std::uint64_t merged = remote_of(extents_).merged();
    if (std::exchange(merged_before_, merged) != merged || remote_of(extents_).waiting().value == 0) {
        return;
    }
    for (std::uint32_t home = 0; home < extents_.nodes(); ++home) {
        merge(0, home);
    }
}

void extent_caches::merge(unsigned arena, std::uint32_t home) noexcept {
    std::array<extent, extent_cache::evicted_at_once> some;
    const remote_extents::merging mark;
    while (const std::size_t taken = remote_of(extents_).take(home, some)) {
        for (const extent& each : std::span(some).first(taken)) {
            if (keeps(each.length)) {
                put(arena, each);
                continue;
            }
            try {
                // Fails where the page entry was overwritten, which check() names.
                static_cast<void>(extents_.free(each.start, extent_kind::reserved).ok());
            } catch (const std::bad_alloc&) {  // no memory for a failure's text
            }
        }
    }
}

void extent_caches::flush() noexcept {
    for (std::uint32_t home = 0; remote_of(extents_).active() && home < extents_.nodes(); ++home) {
        merge(0, home);
    }
    std::array<extent, 64> some;
    for (unsigned i = 0; i < arenas_; ++i) {
        while (const std::size_t taken = caches_[i].take_any(some)) {
            extents_.free_some(std::span(some).first(taken));
        }
    }
}

pages extent_caches::total() const noexcept {
    pages sum{};
    for (unsigned i = 0; i < arenas_; ++i) {
        sum += caches_[i].total();
    }
    return sum;
}

bool extent_caches::contains(pages start) const noexcept {
    for (unsigned i = 0; i < arenas_; ++i) {
        if (caches_[i].contains(start)) {
            return true;
        }
    }
    return false;
}

// EXT-9: a cached extent is reserved, has its length, and is in one cache.
void extent_caches::check(std::vector<std::string>& problems) const {
    std::vector<extent> all;
    for (unsigned i = 0; i < arenas_; ++i) {
        caches_[i].append_to(all);
    }
    std::ranges::sort(all, {}, &extent::start);
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto found = extents_.find(all[i].start);
        const bool twice = i > 0 && all[i].start == all[i - 1].start;
        if (twice || !found || *found != segment::page_entry{extent_kind::reserved, all[i].length}) {
            problems.push_back(fmt::format("EXT-9: {} pages at page {} are cached{}, and its page entry says {}",
                                           all[i].length.value, all[i].start.value, twice ? " twice" : "",
                                           found ? static_cast<unsigned>(found->kind) : 0));
        }
    }
}

}  // namespace holdfast::extent
