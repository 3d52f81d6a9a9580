#include "heap/heap_forks.hpp"

#include <new>
#include <vector>

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

base::result<void> heap_forks::continue_in_child(fork_point forked) {
    segment::heap_files& files = heap_.files();
    segment::free_runs used;
    std::vector<base::granule> slabs;
    const bool mapped_anew = files.shared();
    if (mapped_anew) {
        forked == fork_point::within_a_call ? take_all(used, slabs) : find_used(used, slabs);
    }
    HF_TRY(files.continue_in_child(used, slabs));
    if (mapped_anew) {
        heap_.blocks().slabs().source().renew_guards({}, files.frontier());
    }
    heap_.continue_directly();
    return {};
}

void heap_forks::abandon_in_child() noexcept {
    if (!keeps_children_) {
        heap_.abandon();
    }
}

}  // namespace holdfast::heap
