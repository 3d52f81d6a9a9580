// manager::for_each_extent().
#include <holdfast/manager.hpp>

#include "api/manager_core.hpp"
#include "heap/heap.hpp"

namespace holdfast {

namespace {

using inner_kind = segment::extent_kind;

constexpr bool same(extent_kind a, inner_kind b) { return static_cast<unsigned>(a) == static_cast<unsigned>(b); }
static_assert(same(extent_kind::free, inner_kind::free) && same(extent_kind::block, inner_kind::used));
static_assert(same(extent_kind::slab, inner_kind::slab) && same(extent_kind::roots, inner_kind::roots));
static_assert(same(extent_kind::reserved, inner_kind::reserved));

}  // namespace

void manager::for_each_extent(const std::function<void(const extent_info&)>& each) const {
    value_or_throw(core().engine().for_each_extent([&each](const heap::extent_state& found) {
        extent_info info;
        info.offset = base::offset_of(found.run.start).value;
        info.bytes = base::to_bytes(found.run.length);
        info.kind = static_cast<extent_kind>(found.run.kind);
        info.block_size = found.slab.block_size;
        info.blocks = found.slab.blocks;
        info.live_blocks = found.slab.live_blocks;
        info.backed_bytes = found.backed.bytes;
        info.backed_exactly = found.backed.exact;
        each(info);
    }));
}

}  // namespace holdfast
