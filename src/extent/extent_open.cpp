#include "extent/extent_open.hpp"

#include "extent/page_entries_walk.hpp"

namespace holdfast::extent {

using base::pages;
using base::result;
using segment::extent_kind;

result<void> open_extents(extent_map& map, pages frontier, extent_visitor each, std::vector<extent>& unwritten) {
    HF_TRY(map.entries().check_frontier(frontier));
    HF_TRY(map.reset());
    pages gap{};  // free extents, and reserved ones, which were never published
    pages gap_begin{};
    bool any_reserved = false;
    const auto end_gap = [&] {
        if (gap.value != 0) {
            if (any_reserved) {
                unwritten.push_back({gap_begin, gap, extent_kind::free});
            }
            map.index().add_free({gap_begin, gap, gap});
        }
        gap = {};
        any_reserved = false;
    };
    HF_TRY(map.entries().walk(frontier, [&](const extent& found) {
        if (found.kind == extent_kind::free || found.kind == extent_kind::reserved) {
            gap_begin = gap.value == 0 ? found.start : gap_begin;
            gap += found.length;
            any_reserved = any_reserved || found.kind == extent_kind::reserved;
            return;
        }
        end_gap();
        map.index().add(found.start, found.kind);
        each(found);
    }));
    end_gap();
    map.set_frontier(frontier);
    return {};
}

}  // namespace holdfast::extent
