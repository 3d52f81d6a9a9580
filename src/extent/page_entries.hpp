// The page entries: a word for each page, on media (heap_format.hpp). The word of an extent's first page is the
// truth about the extent; those behind it mean nothing. After a crash only used extents, slabs and the roots count: all
// space between them is free, whatever its entries say.
//
//   page    0           16        20       21             32         48           frontier
//   entry   roots, 16 | used, 4 | free, 1 | reserved, 11 | slab, 16 | used, 200 | none
//
//   what happens to an extent                    who stores the word
//   it is allocated, resized, freed, united      extent_map, under the lock of extent_allocator
//   reserved, then used, then reserved again     the thread whose cache has it, without a lock (hand_out(), claim())
//   freed by a thread of another node            that thread (remote_extents)
//
// Each invariant is one function, shared by open(), check() and the tests. EXT-6 to EXT-8 (extent_checker.cpp), EXT-9
// (extent_cache.cpp) and EXT-10 (remote_extents.cpp) are for check() alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/format/space.hpp"

namespace holdfast::extent {

struct extent {
    base::pages start{};
    base::pages length{};
    segment::extent_kind kind = segment::extent_kind::none;
    std::uint32_t type = 0;
    constexpr bool operator==(const extent&) const = default;
};

struct entry_in_place {
    std::uint64_t word = 0;
    base::pages position{};
    base::pages frontier{};
    segment::extent_kind previous = segment::extent_kind::none;

    [[nodiscard]] constexpr segment::page_entry entry() const noexcept { return segment::decode_page_entry(word); }
};

// EXT-1: the extents tile the user space from page 0 to the frontier, without gap or overlap.
[[nodiscard]] constexpr bool is_tile(const entry_in_place& it) noexcept {
    return it.entry().kind != segment::extent_kind::none && it.entry().length <= it.frontier - it.position;
}

// EXT-2: the entry of an extent is of valid form: a known kind, a length above zero, unused bits zero.
[[nodiscard]] constexpr bool is_well_formed(const entry_in_place& it) noexcept {
    return segment::is_valid_page_entry(it.word) && it.entry().length.value > 0;
}

// EXT-3: no two free extents are neighbours.
[[nodiscard]] constexpr bool is_coalesced(const entry_in_place& it) noexcept {
    return it.entry().kind != segment::extent_kind::free || it.previous != segment::extent_kind::free;
}

// EXT-4: a slab fills one granule: 16 pages, at a multiple of 16.
[[nodiscard]] constexpr bool is_granule_if_slab(const entry_in_place& it) noexcept {
    return it.entry().kind != segment::extent_kind::slab ||
           (it.entry().length.value == base::pages_per_granule && it.position.value % base::pages_per_granule == 0);
}

// EXT-5: the first extent, and no other, holds the roots, in 16 pages.
[[nodiscard]] constexpr bool is_roots_iff_first(const entry_in_place& it) noexcept {
    const bool roots = it.entry().kind == segment::extent_kind::roots;
    return it.position.value == 0 ? roots && it.entry().length.value == base::pages_per_granule : !roots;
}

[[nodiscard]] constexpr bool is_sound(const entry_in_place& it) noexcept {
    return is_well_formed(it) && is_tile(it) && is_coalesced(it) && is_granule_if_slab(it) && is_roots_iff_first(it);
}

/// Other entries are hints after a crash: they were stored past the durable records.
[[nodiscard]] constexpr bool is_block_entry(std::uint64_t word) noexcept {
    const segment::extent_kind kind = segment::decode_page_entry(word).kind;
    return kind == segment::extent_kind::used || kind == segment::extent_kind::slab ||
           kind == segment::extent_kind::roots;
}

/// The end of the reservation has no error of the system.
[[nodiscard]] inline bool is_full_disk(const base::failure& what) noexcept {
    return what.code == base::failure_code::no_space && what.os_error != 0;
}

[[nodiscard]] base::failure make_failure(base::failure_code code, std::string field, std::string found,
                                         std::string expected);

/// Nothing where EXT-1 to EXT-5 hold.
[[nodiscard]] std::optional<base::failure> first_fault(const entry_in_place& it);

using extent_visitor = base::function_ref<void(const extent&)>;

/// Thread safety: each entry is an atomic word.
class page_entries {
public:
    explicit page_entries(const segment::space_view& space) noexcept : space_(space) {}

    [[nodiscard]] const segment::space_view& space() const noexcept { return space_; }
    [[nodiscard]] base::pages reserved() const noexcept { return base::page_of({space_.reservation()}); }

    [[nodiscard]] std::uint64_t load(base::pages page) const noexcept {
        return std::atomic_ref<std::uint64_t>(space_.page_entry_word(page)).load(std::memory_order_acquire);
    }
    [[nodiscard]] extent extent_at(base::pages start) const noexcept {
        const segment::page_entry entry = segment::decode_page_entry(load(start));
        return {start, entry.length, entry.kind, entry.type};
    }
    void store(base::pages page, segment::page_entry entry) const noexcept {
        std::atomic_ref<std::uint64_t>(space_.page_entry_word(page))
            .store(segment::encode(entry), std::memory_order_release);
    }
    [[nodiscard]] bool replace(base::pages page, std::uint64_t expected, segment::page_entry entry) const noexcept {
        return std::atomic_ref<std::uint64_t>(space_.page_entry_word(page))
            .compare_exchange_strong(expected, segment::encode(entry), std::memory_order_acq_rel);
    }
    /// An entry that has the word already is not written.
    void put(base::pages page, std::uint64_t word) const noexcept {
        if (load(page) != word) {
            std::atomic_ref<std::uint64_t>(space_.page_entry_word(page)).store(word, std::memory_order_release);
        }
    }
    [[nodiscard]] bool is_reserved(base::pages start, base::pages length) const noexcept {
        return load(start) == segment::encode({segment::extent_kind::reserved, length});
    }

    /// `corrupt` where the frontier is 0 or lies beyond the reservation.
    [[nodiscard]] base::result<void> check_frontier(base::pages frontier) const;
    /// Calls `each` in order of address. `corrupt` where EXT-1 to EXT-5 do not hold.
    template <class Each>
    [[nodiscard]] base::result<void> walk(base::pages frontier, Each each) const;
    /// Calls `block` for every extent that counts after a crash and starts in [begin, end), and `gap` for the rest. If
    /// `begin` lies within an extent, so does the start of the first gap.
    template <class Block, class Gap>
    [[nodiscard]] base::result<void> walk_blocks(base::pages begin, base::pages end, base::pages frontier, Block block,
                                                 Gap gap) const;
    /// Entries that are right already are not written: their pages stay clean.
    void write_gap(base::pages start, base::pages length) const noexcept;

    /// Calls `each` for used extents, slabs and the roots, in order of address. No other thread may write entries
    /// meanwhile. Fails as extent_allocator::open() does.
    [[nodiscard]] base::result<void> read_blocks(base::pages frontier, extent_visitor each) const;
    /// Does what extent_allocator::recover() does to the page entries.
    [[nodiscard]] base::result<void> rebuild(base::pages frontier) const;

private:
    [[nodiscard]] base::pages next_block(base::pages from, base::pages end) const noexcept;

    segment::space_view space_;
};

/// Each step depends on the one before, so later entries are prefetched.
template <class Each>
base::result<void> page_entries::walk(base::pages frontier, Each each) const {
    constexpr std::uint64_t ahead = 128;  // pages: 16 cache lines
    entry_in_place here{.frontier = frontier};
    while (here.position < frontier) {
        if (here.position.value + ahead < frontier.value) {
            __builtin_prefetch(&space_.page_entry_word({here.position.value + ahead}));
        }
        here.word = load(here.position);
        if (!is_sound(here)) [[unlikely]] {
            return std::move(*first_fault(here));
        }
        const segment::page_entry entry = here.entry();
        each(extent{here.position, entry.length, entry.kind, entry.type});
        here.position += entry.length;
        here.previous = entry.kind;
    }
    return {};
}

template <class Block, class Gap>
base::result<void> page_entries::walk_blocks(base::pages begin, base::pages end, base::pages frontier, Block block,
                                             Gap gap) const {
    constexpr std::uint64_t ahead = 128;
    const entry_in_place first{.word = load(begin), .position = begin, .frontier = frontier};
    if (begin.value == 0 && !is_block_entry(first.word)) {
        return std::move(*first_fault(first));  // EXT-5
    }
    base::pages end_of_last = begin;
    while (end_of_last < end) {
        if (end_of_last.value + ahead < frontier.value) {
            __builtin_prefetch(&space_.page_entry_word({end_of_last.value + ahead}));
        }
        const base::pages start = is_block_entry(load(end_of_last)) ? end_of_last : next_block(end_of_last, end);
        if (start != end_of_last) {
            gap(end_of_last, start - end_of_last);
            if (start == end) {
                return {};
            }
        }
        const entry_in_place here{.word = load(start), .position = start, .frontier = frontier};
        if (!is_sound(here)) [[unlikely]] {
            return std::move(*first_fault(here));
        }
        const segment::page_entry entry = here.entry();
        block(extent{start, entry.length, entry.kind, entry.type});
        end_of_last = start + entry.length;
    }
    return {};
}

}  // namespace holdfast::extent
