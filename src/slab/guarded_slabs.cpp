// How the granules of slabs, and the guard ranges behind them, are taken and freed.
#include <array>
#include <new>

#include "slab/slab_pool.hpp"

namespace holdfast::slab {

using base::granule;
using base::pages;
using segment::extent_kind;

namespace {

constexpr pages size{base::pages_per_granule};

}  // namespace

/// Takes a reserved extent for a slab; with a guard range behind it, where the heap has these and there is room. Guard
/// ranges never make this fail: where nothing else is left, one of them becomes the slab.
base::result<pages> slab_pool::take_granule(std::uint32_t node) {
    if (guards_.has_room()) {
        if (const auto guarded = take_guarded(node)) {
            return *guarded;
        }
    }
    auto alone = extents_.allocate(size, size, extent_kind::reserved, 0, node);
    if (!alone && guards_.active()) {
        if (const auto given_up = guards_.remove_any()) {
            return base::first_page(*given_up);
        }
    }
    return alone;
}

/// Takes two granules side by side, on the node where the slab should be; the second becomes a guard range.
std::optional<pages> slab_pool::take_guarded(std::uint32_t node) {
    std::array<pages, 2> taken{};
    if (!extents_.allocate_adjacent(size, size, taken, node)) {
        return std::nullopt;
    }
    const granule slab = base::granule_of(taken[0]);
    const granule behind = base::granule_of(taken[1]);
    const bool near = node_of(behind) == node_of(slab) && (node == extent::any_node || node_of(slab) == node);
    if (near && guards_.add(behind)) {
        return taken[0];
    }
    free_reserved(behind);
    if (near) {
        return taken[0];
    }
    free_reserved(slab);
    return std::nullopt;
}

/// Frees a reserved granule. False where its page entry was overwritten; check() names it.
bool slab_pool::free_reserved(granule position) noexcept {
    try {
        return extents_.free(base::first_page(position), extent_kind::reserved).ok();
    } catch (const std::bad_alloc&) {  // no memory for a failure's text
        return false;
    }
}

void slab_pool::free_guard_of(granule slab) noexcept {
    const granule behind{slab.value + 1};
    if (guards_.remove(behind)) {
        free_reserved(behind);
    }
}

void slab_pool::free_guards() noexcept {
    guards_.for_each([this](granule range) {
        if (guards_.remove(range)) {
            free_reserved(range);
        }
    });
}

void slab_pool::renew_guards(pages from, pages end) noexcept {
    guards_.renew(from, end, [this](granule lost) { free_reserved(lost); });
}

}  // namespace holdfast::slab
