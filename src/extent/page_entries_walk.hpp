// Included by sources alone.
#pragma once

#include <utility>

#include "extent/page_entries.hpp"

namespace holdfast::extent {

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
