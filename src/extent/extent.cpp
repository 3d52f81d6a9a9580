#include "extent/extent.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "base/checked.hpp"

namespace holdfast::extent {

using base::failure;
using base::failure_code;
using base::pages;
using base::result;
using segment::extent_kind;
using segment::page_entry;

namespace {

constexpr std::uint64_t bits = 64;

failure make_failure(failure_code code, std::string field, std::string found, std::string expected) {
    failure what;
    what.code = code;
    what.field = std::move(field);
    what.found = std::move(found);
    what.expected = std::move(expected);
    return what;
}

/// Asks EXT-1 to EXT-5 of every extent below the frontier and calls `each` for it.
template <class Load, class Each>
result<void> walk(pages frontier, Load load, Each each) {
    entry_in_place here{.frontier = frontier};
    while (here.position < frontier) {
        here.word = load(here.position);
        if (auto fault = first_fault(here)) {
            return std::move(*fault);
        }
        const page_entry entry = here.entry();
        each(extent{here.position, entry.length, entry.kind, entry.type});
        here.position += entry.length;
        here.previous = entry.kind;
    }
    return {};
}

}  // namespace

std::uint64_t extent_allocator::load(pages page) const noexcept {
    return std::atomic_ref<std::uint64_t>(space_.page_entry_word(page)).load(std::memory_order_acquire);
}

void extent_allocator::store(pages page, page_entry entry) const noexcept {
    std::atomic_ref<std::uint64_t>(space_.page_entry_word(page))
        .store(segment::encode(entry), std::memory_order_release);
}

// The index in DRAM follows with add() and remove(); the page entries are the business of the caller, in the right
// order.
void extent_allocator::add(const extent& added) noexcept {
    starts_[added.start.value / bits] |= std::uint64_t{1} << (added.start.value % bits);
    ++counts_[static_cast<std::size_t>(added.kind)];
    if (added.kind == extent_kind::free) {
        free_.insert(added.start, added.length);
    }
}

void extent_allocator::remove(const extent& removed) noexcept {
    starts_[removed.start.value / bits] &= ~(std::uint64_t{1} << (removed.start.value % bits));
    --counts_[static_cast<std::size_t>(removed.kind)];
    if (removed.kind == extent_kind::free) {
        free_.erase(removed.start);
    }
}

bool extent_allocator::starts_at(pages page) const noexcept {
    return (starts_[page.value / bits] >> (page.value % bits) & 1) != 0;
}

result<void> extent_allocator::reset() {
    const pages all = base::page_of({space_.reservation()});
    HF_TRY(free_.reset(all));
    HF_TRY_ASSIGN(starts_,
                  base::sparse_table<std::uint64_t>::create(base::divide_up(all.value, bits), "extent starts"));
    counts_ = {};
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
    const extent rest{roots.length, frontier - roots.length, extent_kind::free};
    store(rest.start, {rest.kind, rest.length});
    store(roots.start, {roots.kind, roots.length});
    add(rest);
    add(roots);
    frontier_.store(frontier.value, std::memory_order_release);
    return {};
}

result<void> extent_allocator::open(pages frontier) {
    return open(frontier, [](const extent&) {});
}

result<void> extent_allocator::open(pages frontier, visitor each) {
    const base::scoped_lock lock(mutex_);
    if (base::page_of({space_.reservation()}) < frontier || frontier.value == 0) {
        return make_failure(failure_code::corrupt, "frontier", fmt::format("page {}", frontier.value),
                            fmt::format("a page of the reservation of {} bytes", space_.reservation()));
    }
    HF_TRY(reset());
    bool any_reserved = false;
    const auto read = [this](pages page) { return load(page); };
    HF_TRY(walk(frontier, read, [&any_reserved](const extent& found) {
        any_reserved = any_reserved || found.kind == extent_kind::reserved;
    }));
    if (any_reserved) {  // by a program that ended before it published them
        HF_TRY(rebuild(frontier));
    }
    HF_TRY(walk(frontier, read,
                [this, &each](const extent& found) HF_NO_THREAD_SAFETY_ANALYSIS {  // the lock is held above
                    add(found);
                    each(found);
                }));
    frontier_.store(frontier.value, std::memory_order_release);
    return {};
}

result<pages> extent_allocator::allocate(pages length, pages alignment, extent_kind kind, std::uint32_t type) {
    return allocate(length, alignment, page_entry{kind, length, type}, [](pages) {});
}

result<pages> extent_allocator::allocate(pages length, pages alignment, extent_kind kind, preparation prepare) {
    return allocate(length, alignment, page_entry{kind, length, 0}, prepare);
}

result<pages> extent_allocator::allocate(pages length, pages alignment, page_entry wanted, preparation prepare) {
    const extent_kind kind = wanted.kind;
    if (length.value == 0 || !base::is_power_of_two(alignment.value) || alignment.value > maximum_alignment ||
        (kind != extent_kind::used && kind != extent_kind::slab && kind != extent_kind::reserved) ||
        wanted.type >= segment::type_limit || (wanted.type != 0 && kind != extent_kind::used)) {
        return make_failure(
            failure_code::invalid_argument, "extent",
            fmt::format("{} pages at a multiple of {}, of type {}", length.value, alignment.value, wanted.type),
            fmt::format("at least 1 page, alignment a power of two up to {}, a type of used ones alone",
                        maximum_alignment));
    }
    const base::scoped_lock lock(mutex_);
    auto place = free_.best_fit(length, alignment);
    if (!place) {
        HF_TRY(grow_for(length, alignment));
        place = free_.best_fit(length, alignment);
    }
    if (!place) {
        return make_failure(failure_code::no_space, "growth", "less than was asked for",
                            fmt::format("{} pages", length.value));
    }
    return carve(*place, wanted, prepare);
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
    adopt(growth_.frontier());
    return {};
}

/// Makes the pages between our frontier and the new one a free extent, or part of the free extent before them.
void extent_allocator::adopt(pages new_frontier) noexcept {
    const pages old_frontier{frontier_.load(std::memory_order_relaxed)};
    if (new_frontier <= old_frontier) {
        return;
    }
    const pages tail = free_.length_before(old_frontier);
    const extent grown{old_frontier - tail, new_frontier - old_frontier + tail, extent_kind::free};
    if (tail.value != 0) {
        remove({grown.start, tail, extent_kind::free});
    }
    store(grown.start, {grown.kind, grown.length});
    add(grown);
    frontier_.store(new_frontier.value, std::memory_order_release);
}

pages extent_allocator::carve(const free_index::placement& place, page_entry wanted, preparation prepare) {
    const pages length = wanted.length;
    const pages front = place.at - place.start;
    const pages end = place.at + length;
    const pages rest = place.start + place.length - end;
    remove({place.start, place.length, extent_kind::free});
    if (rest.value != 0) {
        store(end, {extent_kind::free, rest});
        add({end, rest, extent_kind::free});
    }
    prepare(place.at);
    store(place.at, wanted);
    add({place.at, length, wanted.kind, wanted.type});
    if (front.value != 0) {
        store(place.start, {extent_kind::free, front});  // until this store, the new extent lay inside the free one
        add({place.start, front, extent_kind::free});
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

result<void> extent_allocator::free(pages start, extent_kind kind) {
    const base::scoped_lock lock(mutex_);
    if (kind != extent_kind::used && kind != extent_kind::slab && kind != extent_kind::reserved) {
        return make_failure(failure_code::invalid_argument, "kind of extent", "none of them", "used, slab or reserved");
    }
    if (auto refused = refusal(start, kind)) {
        return std::move(*refused);
    }
    const pages length = segment::decode_page_entry(load(start)).length;
    const pages end = start + length;
    if (end > frontier() || (end < frontier() && !starts_at(end))) {
        return make_failure(failure_code::corrupt, fmt::format("page entry {}", start.value),
                            fmt::format("a length of {} pages", length.value), "the end at the next extent");
    }
    const pages before = free_.length_before(start);
    const pages after = end < frontier() ? free_.length_at(end) : pages{};
    const extent freed{start - before, before + length + after, extent_kind::free};
    remove({start, length, kind});
    if (before.value != 0) {
        remove({freed.start, before, extent_kind::free});
    }
    if (after.value != 0) {
        remove({end, after, extent_kind::free});
    }
    store(freed.start, {freed.kind, freed.length});  // this store frees; those below only tidy up inside
    if (before.value != 0) {
        store(start, {});
    }
    if (after.value != 0) {
        store(end, {});
    }
    add(freed);
    return {};
}

void extent_allocator::changed_kind(extent_kind from, extent_kind to) noexcept {
    const base::scoped_lock lock(mutex_);
    --counts_[static_cast<std::size_t>(from)];
    ++counts_[static_cast<std::size_t>(to)];
}

result<void> extent_allocator::rebuild(pages frontier) const {
    const auto is_truth = [](const page_entry& entry) {
        return entry.kind == extent_kind::used || entry.kind == extent_kind::slab || entry.kind == extent_kind::roots;
    };
    const auto write_if_other = [this](pages page, std::uint64_t word) {
        if (load(page) != word) {  // a page that is not written is not dirty
            store(page, segment::decode_page_entry(word));
        }
    };
    pages end_of_last{};  // the gap before the next extent begins here
    for (pages page{}; page < frontier; ++page.value) {
        entry_in_place here{.word = load(page), .position = page, .frontier = frontier};
        const page_entry entry = here.entry();
        if (page < end_of_last) {
            if (is_truth(entry)) {
                return make_failure(failure_code::corrupt, fmt::format("page entry {}", page.value),
                                    fmt::format("{:#x}", here.word), "EXT-1: nothing inside the extent before it");
            }
            write_if_other(page, 0);
            continue;
        }
        if (!is_truth(entry)) {
            continue;
        }
        if (auto fault = first_fault(here)) {
            return std::move(*fault);
        }
        for (pages gap = end_of_last; gap < page; ++gap.value) {
            write_if_other(gap, gap == end_of_last ? segment::encode({extent_kind::free, page - end_of_last}) : 0);
        }
        end_of_last = page + entry.length;
    }
    for (pages gap = end_of_last; gap < frontier; ++gap.value) {
        write_if_other(gap, gap == end_of_last ? segment::encode({extent_kind::free, frontier - end_of_last}) : 0);
    }
    return {};
}

std::optional<page_entry> extent_allocator::find(pages start) const {
    const base::scoped_lock lock(mutex_);
    if (start >= frontier() || !starts_at(start)) {
        return std::nullopt;
    }
    return segment::decode_page_entry(load(start));
}

std::optional<extent> extent_allocator::containing(pages page) const {
    const base::scoped_lock lock(mutex_);
    if (page >= frontier()) {
        return std::nullopt;
    }
    std::uint64_t index = page.value / bits;
    std::uint64_t word = starts_[index] & (~std::uint64_t{0} >> (bits - 1 - page.value % bits));
    while (word == 0 && index > 0) {
        word = starts_[--index];
    }
    if (word == 0) {
        return std::nullopt;
    }
    const pages start{index * bits + (bits - 1 - static_cast<std::uint64_t>(std::countl_zero(word)))};
    const page_entry entry = segment::decode_page_entry(load(start));
    return extent{start, entry.length, entry.kind, entry.type};
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
    const base::scoped_lock lock(mutex_);
    return counts_.at(static_cast<std::size_t>(kind));
}

/// The next extents from `position` on, which moves beyond them.
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
    std::array<std::uint64_t, 6> counts{};
    const auto walked = walk(
        frontier(), [this](pages page) { return load(page); },
        [&](const extent& found) HF_NO_THREAD_SAFETY_ANALYSIS {  // the lock is held above
            check_interiors(found, problems);
            check_index(found, problems);
            ++counts.at(static_cast<std::size_t>(found.kind));
            free_pages += found.kind == extent_kind::free ? found.length : pages{};
        });
    if (!walked) {
        problems.push_back(walked.error().message());
        return;
    }
    if (counts != counts_ || free_pages != free_.total() || free_.count() != counts_[1]) {
        problems.push_back(fmt::format("EXT-7: the index counts {} free pages in {} extents, the page entries {} in {}",
                                       free_.total().value, free_.count(), free_pages.value, counts[1]));
    }
}

// EXT-6: the page entries inside an extent are zero.
void extent_allocator::check_interiors(const extent& of, std::vector<std::string>& problems) const {
    for (std::uint64_t page = of.start.value + 1; page < of.start.value + of.length.value; ++page) {
        if (const std::uint64_t word = load({page}); word != 0) {
            problems.push_back(fmt::format("EXT-6: page entry {} inside the extent at page {}: found {:#x}, expected 0",
                                           page, of.start.value, word));
            return;
        }
    }
}

// EXT-7: the index in DRAM says of every extent what its page entry says.
void extent_allocator::check_index(const extent& of, std::vector<std::string>& problems) const {
    const pages expected = of.kind == extent_kind::free ? of.length : pages{};
    if (!starts_at(of.start) || free_.length_at(of.start) != expected ||
        free_.length_before(of.start + of.length) != expected) {
        problems.push_back(fmt::format("EXT-7: extent at page {}: the index says {} free pages, the page entry {}",
                                       of.start.value, free_.length_at(of.start).value, expected.value));
    }
}

}  // namespace holdfast::extent
