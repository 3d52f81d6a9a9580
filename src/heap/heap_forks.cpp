#include "heap/heap_forks.hpp"

#include <algorithm>
#include <new>
#include <vector>

#include "base/units.hpp"
#include "persist/backing.hpp"

namespace holdfast::heap {

void heap_forks::resume() noexcept {
    try {
        // After a failure children of other forks inherit pages in vain.
        static_cast<void>(heap_.files().show_to_child(false).ok());
    } catch (const std::bad_alloc&) {
        return;  // no memory for the failure
    }
}

void heap_forks::find_used(segment::free_runs& used, std::vector<base::granule>& slabs) const {
    heap_.extents().for_each([&](const extent::extent& found) {
        // Guard ranges cannot be read.
        const bool is_guard = found.kind == segment::extent_kind::reserved &&
                              heap_.blocks().slabs().source().guards().contains(base::granule_of(found.start));
        if (found.kind != segment::extent_kind::free && !is_guard) {
            used.emplace_back(found.start, found.length);
        }
        if (found.kind == segment::extent_kind::slab) {
            slabs.push_back(base::granule_of(found.start));
        }
    });
}

void heap_forks::take_all(segment::free_runs& used, std::vector<base::granule>& slabs) const {
    constexpr base::pages each{base::pages_per_granule};
    const auto& guards = heap_.blocks().slabs().source().guards();
    for (base::pages start{0}; start < heap_.files().frontier(); start += each) {
        const base::granule here = base::granule_of(start);
        slabs.push_back(here);
        if (!guards.contains(here)) {
            used.emplace_back(start, each);
        }
    }
}

base::result<segment::free_runs> heap_forks::without_holes(const segment::free_runs& runs) const {
    const segment::heap_files& files = heap_.files();
    const std::uint64_t per_segment = files.view().shape().pages();
    segment::free_runs kept;
    for (std::uint64_t first = 0; first < files.frontier().value; first += per_segment) {
        const std::uint64_t last = std::min(first + per_segment, files.frontier().value);
        HF_TRY_ASSIGN(const auto file, files.storage().open(files.paths().segment(first / per_segment),
                                                            persist::access_mode::read_only));
        HF_TRY_ASSIGN(const persist::file_backing backing, persist::backing_of(*file));
        for (const auto& [start, length] : runs) {
            const std::uint64_t begin = std::max(start.value, first);
            const std::uint64_t end = std::min((start + length).value, last);
            const auto ends_behind = [&](const persist::file_range& range) {
                return first + base::divide_up(range.end, base::page_size) <= begin;
            };
            if (begin >= end) {
                continue;  // of another segment; behind a segment's pages its file has tables
            }
            auto range = std::ranges::partition_point(backing.ranges, ends_behind);
            for (; range != backing.ranges.end() && first + range->begin / base::page_size < end; ++range) {
                const std::uint64_t from = std::max(begin, first + range->begin / base::page_size);
                const std::uint64_t to = std::min(end, first + base::divide_up(range->end, base::page_size));
                kept.emplace_back(base::pages{from}, base::pages{to - from});
            }
        }
    }
    return kept;
}

base::result<void> heap_forks::continue_in_child(fork_point forked) {
    segment::heap_files& files = heap_.files();
    segment::free_runs used;
    std::vector<base::granule> slabs;
    const bool mapped_anew = files.shared();
    if (mapped_anew) {
        forked == fork_point::within_a_call ? take_all(used, slabs) : find_used(used, slabs);
        HF_TRY_ASSIGN(used, without_holes(used));
    }
    HF_TRY(files.continue_in_child(used, slabs));
    if (mapped_anew) {
        heap_.blocks().slabs().source().renew_guards({}, files.frontier());
    }
    heap_.chosen().continue_directly();
    return {};
}

void heap_forks::leave_to_parent() noexcept {
    heap_.abandon();
    heap_.blocks().abandon();
    segment::heap_files& files = heap_.files();
    files.commits().close_in_child();
    files.mapping().leave_to_parent();
    files.storage().leave_to_parent();
}

void heap_forks::abandon_in_child() noexcept {
    if (!keeps_children_) {
        heap_.abandon();
    }
}

}  // namespace holdfast::heap
