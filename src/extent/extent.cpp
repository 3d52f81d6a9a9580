#include "extent/extent.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "extent/extent_walk.hpp"

namespace holdfast::extent {

using base::failure;
using base::failure_code;
using base::pages;
using base::result;
using segment::extent_kind;
using segment::page_entry;

namespace {

failure make_failure(failure_code code, std::string field, std::string found, std::string expected) {
    failure what;
    what.code = code;
    what.field = std::move(field);
    what.found = std::move(found);
    what.expected = std::move(expected);
    return what;
}

}  // namespace

std::uint64_t extent_allocator::load(pages page) const noexcept {
    return std::atomic_ref<std::uint64_t>(space_.page_entry_word(page)).load(std::memory_order_acquire);
}

void extent_allocator::store(pages page, page_entry entry) const noexcept {
    std::atomic_ref<std::uint64_t>(space_.page_entry_word(page))
        .store(segment::encode(entry), std::memory_order_release);
}

/// Used and reserved extents are counted together, because their page entries change without the lock.
std::size_t extent_allocator::counter_of(extent_kind kind) noexcept {
    return static_cast<std::size_t>(kind == extent_kind::reserved ? extent_kind::used : kind);
}

// add() and remove() change the index in DRAM. The caller stores the page entries, in the right order.
void extent_allocator::add(const extent& added) noexcept {
    starts_.set(added.start);
    ++counts_[counter_of(added.kind)];
    if (added.kind == extent_kind::free) {
        free_.insert({added.start, added.length, added.length});
    }
}

void extent_allocator::add_free(const free_index::run& added) noexcept {
    starts_.set(added.start);
    ++counts_[counter_of(extent_kind::free)];
    free_.insert(added);
}

void extent_allocator::remove(pages start, extent_kind kind) noexcept {
    starts_.clear(start);
    --counts_[counter_of(kind)];
}

free_index::run extent_allocator::remove_free(pages start) noexcept {
    remove(start, extent_kind::free);
    return free_.erase(start);
}

bool extent_allocator::starts_at(pages page) const noexcept { return starts_[page]; }

result<void> extent_allocator::reset() {
    const pages all = base::page_of({space_.reservation()});
    HF_TRY(free_.reset(all, layout_));
    HF_TRY(starts_.reset(all, "extent starts"));
    HF_TRY(backed_.reset(all, "pages with space"));
    HF_TRY(holes_.reset(all, "pages without space"));
    counts_ = {};
    unwritten_ = {};
    frontier_.store(0, std::memory_order_release);
    return {};
}

result<void> extent_allocator::format() {
    const base::scoped_lock lock(mutex_);
    const pages frontier = growth_.frontier();
    if (frontier.value <= base::pages_per_granule) {
        return make_failure(failure_code::invalid_argument, "first region", fmt::format("{} pages", frontier.value),
                            fmt::format("more than {} pages", base::pages_per_granule));
    }
    HF_TRY(reset());
    const extent roots{{0}, {base::pages_per_granule}, extent_kind::roots};
    const pages backed = std::min(growth_.backed_end(), frontier) - roots.length;
    const free_index::run rest{roots.length, frontier - roots.length, backed};
    store(rest.start, {extent_kind::free, rest.length});
    store(roots.start, {roots.kind, roots.length});
    note_backed(rest.start, backed);
    note_hole(rest.start + backed, rest.length - backed);
    add_free(rest);
    add(roots);
    frontier_.store(frontier.value, std::memory_order_release);
    return {};
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
    if (fetch_hoard_) {
        {
            const base::scoped_lock lock(mutex_);
            if (const auto place = free_place(length, alignment, node)) {
                HF_TRY_ASSIGN(const auto backed, backed_place(*place, length, alignment));
                return carve(backed, wanted);
            }
        }
        (*fetch_hoard_)();
    }
    const base::scoped_lock lock(mutex_);
    HF_TRY_ASSIGN(const free_index::placement place, find_place(length, alignment, node));
    HF_TRY_ASSIGN(const auto backed, backed_place(place, length, alignment));
    return carve(backed, wanted);
}

/// A place in the present space; on the node, where one is asked for.
std::optional<free_index::placement> extent_allocator::free_place(pages length, pages alignment,
                                                                  std::uint32_t node) const noexcept {
    return is_local(node, length) ? free_.best_fit_on(node, length, alignment) : free_.best_fit(length, alignment);
}

/// Finds a place, growing the space where there is none. Where the disk is full, free extents elsewhere make room.
result<free_index::placement> extent_allocator::find_place(pages length, pages alignment, std::uint32_t node) {
    if (is_local(node, length)) {
        const auto near = free_.best_fit_on(node, length, alignment);
        if (near || grow_on(node, length, alignment)) {
            return near ? *near : *free_.best_fit_on(node, length, alignment);
        }
    }
    if (const auto place = free_.best_fit(length, alignment)) {
        return *place;
    }
    while (true) {
        auto grown = grow_for(length, alignment);
        if (grown) {
            break;
        }
        if (!is_full_disk(grown.error()) || !make_space(length, {})) {
            return std::move(grown).error();
        }
    }
    if (const auto place = free_.best_fit(length, alignment)) {
        return *place;
    }
    return make_failure(failure_code::no_space, "growth", "less than was asked for",
                        fmt::format("{} pages", length.value));
}

result<void> extent_allocator::grow_for(pages length, pages alignment) {
    const pages frontier{frontier_.load(std::memory_order_relaxed)};
    const std::uint64_t reserved = base::page_of({space_.reservation()}).value;
    const pages tail = free_.length_before(frontier);
    const auto at = base::checked_align_up(frontier.value - tail.value, alignment.value);
    const auto end = at ? base::checked_add(*at, length.value) : std::nullopt;
    if (!end || *end > reserved) {
        return make_failure(failure_code::limit, "addresses reserved for the heap",
                            fmt::format("{} pages, {} in use", reserved, (frontier - free_.total()).value),
                            fmt::format("room for {} pages more", length.value));
    }
    if (*end > growth_.frontier().value) {
        HF_TRY_ASSIGN([[maybe_unused]] const pages added, growth_.grow({*end - growth_.frontier().value}));
    }
    adopt(growth_.frontier(), true);
    return {};
}

/// Grows the space into a segment of the node, skipping pages of other nodes. The skipped pages have no space on disk.
/// False, without a reason, where it cannot: the caller asks other nodes next.
bool extent_allocator::grow_on(std::uint32_t node, pages length, pages alignment) {
    const pages old_frontier{frontier_.load(std::memory_order_relaxed)};
    if (growth_.frontier() != old_frontier) {
        return false;
    }
    for (pages from = old_frontier;; from = layout_.segment_end(from)) {
        const pages tail = from == old_frontier ? free_.length_before(from) : pages{};
        const pages begin{std::max((from - tail).value, base::align_down(from.value, layout_.segment.value))};
        const pages end = pages{base::align_up(begin.value, alignment.value)} + length;
        const pages most = layout_.segment_end(from) - from;
        if (layout_.node_of(from) != node || end > from + most) {
            continue;
        }
        if (end <= from || end > base::page_of({space_.reservation()}) ||
            !growth_.grow_beyond(from - old_frontier, end - from, most)) {
            return false;
        }
        adopt(growth_.frontier(), true, from - old_frontier);
        return true;
    }
}

/// Makes the pages between the old frontier and the new one a free extent, or a part of the free extent before them.
/// `backed`: the pages behind the `skipped` first ones, up to space_growth::backed_end(), have just been reserved;
/// otherwise this is unknown.
void extent_allocator::adopt(pages new_frontier, bool backed, pages skipped) noexcept {
    const pages old_frontier{frontier_.load(std::memory_order_relaxed)};
    if (new_frontier <= old_frontier) {
        return;
    }
    free_index::run grown{old_frontier, new_frontier - old_frontier, new_frontier - old_frontier - skipped};
    if (backed) {
        const pages from = old_frontier + skipped;
        const pages end{std::clamp(growth_.backed_end().value, from.value, new_frontier.value)};
        note_hole(grown.start, skipped);
        note_backed(from, end - from);
        note_hole(end, new_frontier - end);
        grown.backed = end - from;
    }
    if (growth_.gives_back_at_once()) {
        for (pages page = old_frontier; page < new_frontier; ++page.value) {
            if (load(page) != 0) {  // left by a heap that was longer before a power loss
                store(page, {});
            }
        }
    }
    if (const pages tail = free_.length_before(old_frontier); tail.value != 0) {
        const free_index::run before = remove_free(old_frontier - tail);
        grown = {before.start, before.length + grown.length, before.backed + grown.backed};
    }
    store(grown.start, {extent_kind::free, grown.length});
    add_free(grown);
    frontier_.store(new_frontier.value, std::memory_order_release);
}

/// Makes an extent of pages at the place, which must be backed.
pages extent_allocator::carve(const free_index::placement& place, page_entry wanted) {
    const pages length = wanted.length;
    const pages end = place.at + length;
    const free_index::run whole = remove_free(place.in.start);
    const pages front = place.at - whole.start;
    const pages front_backed = front - holes_.count(whole.start, front);
    const pages rest = whole.start + whole.length - end;
    if (rest.value != 0) {
        store(end, {extent_kind::free, rest});
        add_free({end, rest, whole.backed - length - front_backed});
    }
    store(place.at, wanted);
    add({place.at, length, wanted.kind, wanted.type});
    if (front.value != 0) {
        store(whole.start, {extent_kind::free, front});  // until this store, the new extent lay inside the free one
        add_free({whole.start, front, front_backed});
    }
    return place.at;
}

std::optional<failure> extent_allocator::refusal(pages start, extent_kind kind) const {
    const auto refuse = [&](std::string found) {
        const auto address = reinterpret_cast<std::uintptr_t>(space_.address(base::offset_of(start)));
        return make_failure(failure_code::bad_address, fmt::format("address {:#x}", address), std::move(found),
                            kind == extent_kind::slab ? "the start of a slab" : "the start of an allocated block");
    };
    if (start >= frontier()) {
        return refuse("an address outside the heap, beyond its frontier");
    }
    if (!starts_at(start)) {
        return refuse("an address inside an extent");
    }
    const page_entry entry = segment::decode_page_entry(load(start));
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

result<void> extent_allocator::free(pages start, extent_kind kind, bool backed) {
    free_index::run huge{};
    bool due = false;
    {
        const base::scoped_lock lock(mutex_);
        HF_TRY_ASSIGN(huge, free_locked(start, kind, backed));
        due = is_due();
    }
    if (huge.length.value != 0) {
        static_cast<void>(give_back_reserved(huge));  // where it fails, the extent decays like others
    }
    decay_if(due);
    return {};
}

/// Frees the extent. A huge one becomes reserved and is returned, for the caller to give back; otherwise the result is
/// empty.
result<free_index::run> extent_allocator::free_locked(pages start, extent_kind kind, bool backed) {
    if (kind != extent_kind::used && kind != extent_kind::slab && kind != extent_kind::reserved) {
        return make_failure(failure_code::invalid_argument, "kind of extent", "none of them", "used, slab or reserved");
    }
    if (auto refused = refusal(start, kind)) {
        return std::move(*refused);
    }
    std::uint64_t word = load(start);
    const pages length = segment::decode_page_entry(word).length;
    const pages end = start + length;
    if (end > frontier() || (end < frontier() && !starts_at(end))) {
        return make_failure(failure_code::corrupt, fmt::format("page entry {}", start.value),
                            fmt::format("a length of {} pages", length.value), "the end at the next extent");
    }
    if (!std::atomic_ref<std::uint64_t>(space_.page_entry_word(start))
             .compare_exchange_strong(word, segment::encode({extent_kind::reserved, length}),
                                      std::memory_order_acq_rel)) {
        return make_failure(failure_code::bad_address, fmt::format("page {}", start.value),
                            "a block that another thread frees at this moment", "the start of an allocated block");
    }
    remove(start, kind);
    if (length >= huge_length && growth_.gives_back_at_once() && clock_ != nullptr && decay_.enabled()) {
        add({start, length, extent_kind::reserved});
        return free_index::run{start, length, length};
    }
    if (backed) {
        note_backed(start, length);
    } else {
        backed_.clear(start, length);  // bits from its last time as a free extent
    }
    unite({start, length, length});
    return free_index::run{};
}

/// Makes an extent that is in no index a free one, together with its free neighbours.
void extent_allocator::unite(const free_index::run& one) noexcept {
    const pages end = one.start + one.length;
    free_index::run freed = one;
    if (const pages before = free_.length_before(one.start); before.value != 0) {
        const free_index::run joined = remove_free(one.start - before);
        freed = {joined.start, joined.length + freed.length, joined.backed + freed.backed};
    }
    const bool joins_next = end < frontier() && free_.length_at(end).value != 0;
    if (joins_next) {
        const free_index::run joined = remove_free(end);
        freed = {freed.start, freed.length + joined.length, freed.backed + joined.backed};
    }
    store(freed.start, {extent_kind::free, freed.length});  // this store frees; those below only clean the inside
    if (freed.start != one.start) {
        store(one.start, {});
    }
    if (joins_next) {
        store(end, {});
    }
    add_free(freed);
}

void extent_allocator::slab_made(pages start) noexcept {
    const base::scoped_lock lock(mutex_);
    store(start, {extent_kind::slab, {base::pages_per_granule}, 0});
    --counts_[counter_of(extent_kind::reserved)];
    ++counts_[counter_of(extent_kind::slab)];
}

void extent_allocator::slab_withdrawn() noexcept {
    const base::scoped_lock lock(mutex_);
    --counts_[counter_of(extent_kind::slab)];
    ++counts_[counter_of(extent_kind::reserved)];
}

/// Read without the lock: the owner of an extent sees that it starts there; for other threads it may come or go now.
bool extent_allocator::starts_at_now(pages page) const noexcept HF_NO_THREAD_SAFETY_ANALYSIS { return starts_[page]; }

std::optional<page_entry> extent_allocator::find(pages start) const {
    if (start >= frontier() || !starts_at_now(start)) {
        return std::nullopt;
    }
    return segment::decode_page_entry(load(start));
}

std::optional<extent> extent_allocator::containing(pages page) const {
    const base::scoped_lock lock(mutex_);
    if (page >= frontier()) {
        return std::nullopt;
    }
    const auto start = starts_.last_up_to(page);
    if (!start) {
        return std::nullopt;
    }
    const page_entry entry = segment::decode_page_entry(load(*start));
    return extent{*start, entry.length, entry.kind, entry.type};
}

pages extent_allocator::largest_free() const {
    const base::scoped_lock lock(mutex_);
    return free_.largest();
}

pages extent_allocator::free_pages() const {
    const base::scoped_lock lock(mutex_);
    return free_.total();
}

std::uint64_t extent_allocator::count(extent_kind kind) const {
    if (kind == extent_kind::used || kind == extent_kind::reserved) {
        std::uint64_t found = 0;
        for_each([&](const extent& one) { found += one.kind == kind ? 1 : 0; });
        return found;
    }
    const base::scoped_lock lock(mutex_);
    return counts_.at(static_cast<std::size_t>(kind));
}

/// Copies the next extents from `position` on, and moves `position` beyond them.
std::size_t extent_allocator::copy_some(pages& position, std::array<extent, 128>& some) const {
    const base::scoped_lock lock(mutex_);
    std::size_t copied = 0;
    while (copied < some.size() && position < frontier()) {
        if (!starts_at(position)) {  // united with the extent before it since the last call
            ++position.value;
            continue;
        }
        const page_entry entry = segment::decode_page_entry(load(position));
        some.at(copied++) = {position, entry.length, entry.kind, entry.type};
        position += {std::max<std::uint64_t>(entry.length.value, 1)};
    }
    return copied;
}

void extent_allocator::for_each(visitor each) const {
    std::array<extent, 128> some;
    pages position{};
    while (const std::size_t copied = copy_some(position, some)) {
        for (std::size_t i = 0; i < copied; ++i) {
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

void extent_allocator::check(std::vector<std::string>& problems) const {
    const base::scoped_lock lock(mutex_);
    pages free_pages{};
    pages holes{};
    std::array<std::uint64_t, 6> counts{};
    const auto walked = walk(frontier(), [&](const extent& found) HF_NO_THREAD_SAFETY_ANALYSIS {  // locked above
        check_interiors(found, problems);
        check_index(found, problems);
        ++counts.at(counter_of(found.kind));
        free_pages += found.kind == extent_kind::free ? found.length : pages{};
        check_holes(found, holes, problems);
    });
    if (!walked) {
        problems.push_back(walked.error().message());
        return;
    }
    if (counts != counts_ || free_pages != free_.total() || free_.count() != counts_[1]) {
        problems.push_back(fmt::format("EXT-7: the index counts {} free pages in {} extents, the page entries {} in {}",
                                       free_.total().value, free_.count(), free_pages.value, counts[1]));
    }
    if (holes != free_.total() - free_.backed()) {
        problems.push_back(fmt::format("EXT-8: the index counts {} pages without space, of free extents {} are holes",
                                       (free_.total() - free_.backed()).value, holes.value));
    }
}

result<void> extent_allocator::check_entries(pages first, pages count) const {
    const base::scoped_lock lock(mutex_);
    entry_in_place it{0, first, frontier(), extent_kind::none};
    for (const pages end = std::min(first + count, it.frontier); it.position < end; ++it.position.value) {
        it.word = load(it.position);
        if (!starts_at(it.position)) {
            if (is_block_entry(it.word)) {
                return failure{failure_code::corrupt,
                               {},
                               fmt::format("page entry {}", it.position.value),
                               fmt::format("{:#x}", it.word),
                               "EXT-6: none of a block inside an extent",
                               {},
                               0};
            }
            continue;
        }
        if (auto fault = first_fault(it)) {
            return std::move(*fault);
        }
        const pages next = it.position + it.entry().length;
        const pages inside = it.position + pages{1};
        if ((next != it.frontier && !starts_at(next)) || starts_.count(inside, next - inside).value != 0) {
            return failure{failure_code::corrupt,
                           {},
                           fmt::format("page entry {}", it.position.value),
                           fmt::format("{} pages", it.entry().length.value),
                           "EXT-7: an extent that ends where the next one begins",
                           {},
                           0};
        }
        it.previous = it.entry().kind;
    }
    return {};
}

// EXT-8: holes are only in free extents, and the index counts them.
void extent_allocator::check_holes(const extent& of, pages& holes, std::vector<std::string>& problems) const {
    const pages found = holes_.count(of.start, of.length);
    if (of.kind == extent_kind::free) {
        holes += found;
    } else if (found.value != 0) {
        problems.push_back(fmt::format("EXT-8: {} pages of the extent at page {}, which is in use, are holes",
                                       found.value, of.start.value));
    }
}

// EXT-6: no page entry inside an extent says that a block starts there. (Old entries of free extents may be there.)
void extent_allocator::check_interiors(const extent& of, std::vector<std::string>& problems) const {
    for (std::uint64_t page = of.start.value + 1; page < of.start.value + of.length.value; ++page) {
        if (const std::uint64_t word = load({page}); is_block_entry(word)) {
            problems.push_back(
                fmt::format("EXT-6: page entry {} inside the extent at page {}: found {:#x}, expected none of a block",
                            page, of.start.value, word));
            return;
        }
    }
}

// EXT-7: the index in DRAM agrees with the page entry of every extent.
void extent_allocator::check_index(const extent& of, std::vector<std::string>& problems) const {
    const pages expected = of.kind == extent_kind::free ? of.length : pages{};
    if (!starts_at(of.start) || free_.length_at(of.start) != expected ||
        free_.length_before(of.start + of.length) != expected) {
        problems.push_back(fmt::format("EXT-7: extent at page {}: the index says {} free pages, the page entry {}",
                                       of.start.value, free_.length_at(of.start).value, expected.value));
    }
}

}  // namespace holdfast::extent
