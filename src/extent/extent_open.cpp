// Builds the index from the page entries: after a clean close, and after a crash.
#include <algorithm>

#include <fmt/format.h>

#include "extent/extent_walk.hpp"

namespace holdfast::extent {

using base::failure;
using base::failure_code;
using base::pages;
using base::result;
using segment::extent_kind;

result<void> extent_allocator::open(pages frontier) {
    return open(frontier, [](const extent&) {});
}

namespace {

result<void> check_frontier(pages frontier, std::uint64_t reservation) {
    if (base::page_of({reservation}) < frontier || frontier.value == 0) {
        failure what;
        what.code = failure_code::corrupt;
        what.field = "frontier";
        what.found = fmt::format("page {}", frontier.value);
        what.expected = fmt::format("a page of the reservation of {} bytes", reservation);
        return what;
    }
    return {};
}

}  // namespace

result<void> extent_allocator::begin(pages frontier) {
    HF_TRY(check_frontier(frontier, space_.reservation()));
    return reset();
}

result<void> extent_allocator::open(pages frontier, visitor each) {
    const base::scoped_lock lock(mutex_);
    HF_TRY(begin(frontier));
    pages gap{};  // free extents, and reserved ones, which were never published
    pages gap_begin{};
    bool any_reserved = false;
    const auto end_gap = [&]() HF_NO_THREAD_SAFETY_ANALYSIS {  // the lock is held above
        if (gap.value != 0) {
            if (any_reserved) {
                unwritten_.push_back({gap_begin, gap, extent_kind::free});
            }
            add_free({gap_begin, gap, gap});
        }
        gap = {};
        any_reserved = false;
    };
    HF_TRY(walk(frontier, [&](const extent& found) HF_NO_THREAD_SAFETY_ANALYSIS {
        if (found.kind == extent_kind::free || found.kind == extent_kind::reserved) {
            gap_begin = gap.value == 0 ? found.start : gap_begin;
            gap += found.length;
            any_reserved = any_reserved || found.kind == extent_kind::reserved;
            return;
        }
        end_gap();
        add(found);
        each(found);
    }));
    end_gap();
    frontier_.store(frontier.value, std::memory_order_release);
    return {};
}

void extent_allocator::write_opened() noexcept {
    const base::scoped_lock lock(mutex_);
    for (const extent& gap : unwritten_) {
        write_gap(gap.start, gap.length);
    }
    unwritten_ = {};
}

result<void> extent_allocator::read_blocks(pages frontier, visitor each) const {
    HF_TRY(check_frontier(frontier, space_.reservation()));
    return walk_blocks({}, frontier, frontier, each, [](pages, pages) {});
}

result<void> extent_allocator::rebuild(pages frontier) const {
    return walk_blocks(
        {}, frontier, frontier, [](const extent&) {}, [this](pages start, pages length) { write_gap(start, length); });
}

/// The first page from `from` on whose entry says that a block starts there; `end` where there is none. Zeros, which
/// are most of the entries, are skipped a cache line at a time.
pages extent_allocator::next_block(pages from, pages end) const noexcept {
    constexpr std::uint64_t line = base::cache_line_size / segment::page_entry_size;
    const std::uint64_t per_segment = space_.shape().pages();
    for (std::uint64_t page = from.value; page < end.value;) {
        const std::uint64_t until = std::min(end.value, (page / per_segment + 1) * per_segment);
        const std::uint64_t* const entries = &space_.page_entry_word({page});
        for (std::uint64_t i = 0; i < until - page;) {
            if ((page + i) % line == 0 && until - page - i >= line) {
                std::uint64_t any = 0;
                for (std::uint64_t k = 0; k < line; ++k) {
                    any |= entries[i + k];
                }
                if (any == 0) {
                    i += line;
                    continue;
                }
            }
            if (is_block_entry(entries[i])) {
                return {page + i};
            }
            ++i;
        }
        page = until;
    }
    return end;
}

/// Makes the page entries of a gap those of one free extent. Entries that are right already are not written, so that
/// their pages stay clean.
void extent_allocator::write_gap(pages start, pages length) const noexcept {
    const std::uint64_t per_segment = space_.shape().pages();
    const std::uint64_t end = start.value + length.value;
    const segment::page_entry whole{extent_kind::free, length};
    if (load(start) != segment::encode(whole)) {
        store(start, whole);
    }
    for (std::uint64_t page = start.value + 1; page < end;) {
        const std::uint64_t until = std::min(end, (page / per_segment + 1) * per_segment);
        const std::uint64_t* const entries = &space_.page_entry_word({page});
        for (std::uint64_t i = 0; i < until - page; ++i) {
            if (entries[i] != 0) {
                store({page + i}, {});
            }
        }
        page = until;
    }
}

}  // namespace holdfast::extent
