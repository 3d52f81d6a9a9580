#include "slab/pool/slab_source.hpp"

#include <array>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "extent/page_entries.hpp"

namespace holdfast::slab {

using base::granule;
using base::pages;
using segment::extent_kind;

namespace {

constexpr pages size{base::pages_per_granule};
/// Given back at once on a full disk: the next bitmaps have room, too.
constexpr pages given_for_bitmap{base::mebibyte / base::page_size};

}  // namespace

base::result<granule> slab_source::make(unsigned class_index, std::uint32_t type, std::uint32_t node) {
    const size_class& size = size_classes[class_index];
    HF_TRY_ASSIGN(const pages page, take_granule(node));
    const granule slab = base::granule_of(page);
    if (auto ready = back_new_bitmap(slab); !ready) {
        free_guard_of(slab);
        HF_TRY(of_.extents.free(page, extent_kind::reserved));
        return std::move(ready).error();
    }
    const bool sound = admits(slab);
    if (sound && of_.log != nullptr) {
        if (!of_.log->slab_created(slab, size, type)) {
            free_guard_of(slab);
            HF_TRY(of_.extents.free(page, extent_kind::reserved));
            base::failure what;
            what.code = base::failure_code::poisoned;
            return what;
        }
    } else if (sound) {
        write_header(slab, size, type);
        of_.table.clear_bitmap(slab);  // zero already, unless media breaks SLAB-4
    }
    of_.extents.slab_made(page);
    if (!sound) {
        of_.table.set_state(slab, slab_state::quarantined);
        return base::failure{base::failure_code::corrupt,
                             {},
                             "live bitmap",
                             fmt::format("damage in granule {}", slab.value),
                             "what was committed",
                             "holdfast check names the page",
                             0};
    }
    return slab;
}

/// On a full disk free extents may hold what the bitmap needs.
base::result<void> slab_source::back_new_bitmap(granule slab) const {
    auto backed = back_bitmap(slab, segment::bitmap_verifier::slab_is::made);
    while (!backed && extent::is_full_disk(backed.error())) {
        const auto given_back = of_.extents.space().give_back(given_for_bitmap);
        if (!given_back || given_back->value == 0) {
            break;
        }
        backed = back_bitmap(slab, segment::bitmap_verifier::slab_is::made);
    }
    return backed;
}

void slab_source::release(granule slab, unsigned class_index, std::uint32_t type, bool backed) noexcept {
    of_.table.set_state(slab, slab_state::none);  // before the granule can become something else
    free_guard_of(slab);
    of_.table.set_morph_state(slab, 0);
    auto kind = extent_kind::slab;
    if (of_.tracks_changes) {
        of_.table.clear_bitmap(slab);
    }
    if (of_.log != nullptr) {
        of_.log->slab_released(slab, size_classes[class_index], type);
        of_.extents.slab_withdrawn();
        kind = extent_kind::reserved;
    }
    bool freed = false;
    try {
        freed = of_.extents.free(base::first_page(slab), kind, backed).ok();
    } catch (const std::bad_alloc&) {  // no memory for a failure's text
    }
    if (!freed) {
        of_.table.set_state(slab, slab_state::quarantined);  // its page entry was overwritten
    }
}

bool slab_source::back(granule slab) noexcept {
    try {
        return of_.extents.back_used(base::first_page(slab), size).ok();
    } catch (const std::bad_alloc&) {
        return false;
    }
}

bool slab_source::admits(granule slab) const noexcept {
    try {
        return admit(slab).ok();
    } catch (const std::bad_alloc&) {
        return false;
    }
}

base::result<void> slab_source::back_bitmap(granule slab, segment::bitmap_verifier::slab_is use) const noexcept {
    try {
        return verifier_ == nullptr ? base::result<void>() : verifier_->back(slab, use);
    } catch (const std::bad_alloc&) {
        base::failure what;
        what.code = base::failure_code::out_of_memory;
        return what;
    }
}

void slab_source::write_header(granule slab, const size_class& size, std::uint32_t type) const noexcept {
    const segment::slab_header_on_media wanted{size.block_size, size.block_count, 0, type, {}};
    segment::slab_header_on_media& header = of_.space.slab_header(slab);
    if (std::memcmp(&header, &wanted, sizeof wanted) != 0) {  // a page without a store stays clean
        header = wanted;
    }
}

/// Takes a reserved extent, with a guard range behind it where there is room. Where nothing else is left, a guard range
/// becomes the slab.
base::result<pages> slab_source::take_granule(std::uint32_t node) {
    if (guards_.has_room()) {
        if (const auto guarded = take_guarded(node)) {
            return *guarded;
        }
    }
    auto alone = of_.extents.allocate(size, size, extent_kind::reserved, 0, node);
    if (!alone && guards_.active()) {
        if (const auto given_up = guards_.remove_any()) {
            return base::first_page(*given_up);
        }
    }
    return alone;
}

/// Of two granules side by side, the second becomes a guard range.
std::optional<pages> slab_source::take_guarded(std::uint32_t node) {
    std::array<pages, 2> taken{};
    if (!of_.extents.allocate_adjacent(size, size, taken, node)) {
        return std::nullopt;
    }
    const granule slab = base::granule_of(taken[0]);
    const granule behind = base::granule_of(taken[1]);
    const bool near =
        of_.node_of(behind) == of_.node_of(slab) && (node == extent::any_node || of_.node_of(slab) == node);
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

/// False where its page entry was overwritten.
bool slab_source::free_reserved(granule position) noexcept {
    try {
        return of_.extents.free(base::first_page(position), extent_kind::reserved).ok();
    } catch (const std::bad_alloc&) {
        return false;
    }
}

void slab_source::free_guard_of(granule slab) noexcept {
    const granule behind{slab.value + 1};
    if (guards_.remove(behind)) {
        free_reserved(behind);
    }
}

void slab_source::free_guards() noexcept {
    guards_.for_each([this](granule range) {
        if (guards_.remove(range)) {
            free_reserved(range);
        }
    });
}

void slab_source::renew_guards(pages from, pages end) noexcept {
    guards_.renew(from, end, [this](granule lost) { free_reserved(lost); });
}

}  // namespace holdfast::slab
