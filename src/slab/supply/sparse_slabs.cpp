#include "slab/supply/sparse_slabs.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

namespace holdfast::slab {

using base::granule;

namespace {

/// A sparse slab costs a part of a system call and a changed page.
constexpr unsigned least_empty_pages = 4;
constexpr unsigned all_pages = (1U << base::pages_per_granule) - 1;

void set_may_have_holes(const segment::space_view& space, granule slab, bool may_have) noexcept {
    std::uint64_t& flags = space.slab_header(slab).flags;
    const std::uint64_t wanted =
        may_have ? flags | segment::slab_flag_may_have_holes : flags & ~segment::slab_flag_may_have_holes;
    if (flags != wanted) {  // a page without a store stays clean
        std::atomic_ref(flags).store(wanted, std::memory_order_relaxed);
    }
}

void add_pages(segment::free_runs& runs, granule slab, unsigned bits) {
    for (unsigned page = 0; page < base::pages_per_granule; ++page) {
        if ((bits >> page & 1U) == 0) {
            continue;
        }
        const base::pages at = base::first_page(slab) + base::pages{page};
        if (!runs.empty() && runs.back().first + runs.back().second == at) {
            ++runs.back().second.value;
        } else {
            runs.emplace_back(at, base::pages{1});
        }
    }
}

bool any_bit(const std::array<std::uint64_t, bitmap_words>& bits, std::uint32_t first, std::uint32_t last) noexcept {
    for (std::uint32_t word = first / 64; word <= last / 64; ++word) {
        std::uint64_t found = bits[word];
        found &= word == first / 64 ? ~std::uint64_t{0} << (first % 64) : ~std::uint64_t{0};
        found &= word == last / 64 ? ~std::uint64_t{0} >> (63 - last % 64) : ~std::uint64_t{0};
        if (found != 0) {
            return true;
        }
    }
    return false;
}

}  // namespace

/// Pages with a part of a block that is not free. For overlapped blocks, the older ones count.
std::uint16_t sparse_slabs::pages_with_blocks(granule slab, slab_kind kind, bool present) const noexcept {
    const size_class& size = kind.size();
    std::array<std::uint64_t, bitmap_words> taken{};
    const std::uint8_t* const states = of_.table.block_states(slab, kind);
    for (std::size_t word = 0; word < words_of(size); ++word) {
        const std::uint64_t overlapped = present ? overlapped_bits_of(states + word * states_a_word) : 0;
        taken[word] = ~of_.table.free_bits(slab, kind, word) & ~overlapped & valid_bits(size, word);
    }
    unsigned pages = 0;
    for (std::uint32_t page = 0; page < base::pages_per_granule; ++page) {
        const std::uint64_t begin = page * base::page_size;
        const std::uint32_t first = block_index(size, begin);
        const std::uint32_t last = block_index(size, begin + base::page_size - 1);
        if (first < size.block_count && any_bit(taken, first, std::min<std::uint32_t>(last, size.block_count - 1U))) {
            pages |= 1U << page;
        }
    }
    return static_cast<std::uint16_t>(pages);
}

std::uint16_t sparse_slabs::pages_without_blocks(granule slab) const noexcept {
    const slab_kinds kinds = of_.table.kinds_in(slab, of_.table.state(slab));
    unsigned taken = 0;
    for (unsigned i = 0; i < kinds.count; ++i) {
        taken |= pages_with_blocks(slab, kinds.kinds[i], i == 0);
    }
    return static_cast<std::uint16_t>(all_pages & ~taken);
}

bool sparse_slabs::repopulate(slab_bin& owner, granule slab) noexcept {
    if (!source_.back(slab)) {
        return false;
    }
    if (of_.is_private()) {
        set_may_have_holes(of_.space, slab, false);
    }
    lists_.unlink_sparse(owner, slab);
    return true;
}

bool sparse_slabs::repopulate_next(slab_bin& owner) noexcept {
    std::uint32_t link = owner.sparse;
    for (int tries = 0; link != 0 && tries < tries_a_take; ++tries) {
        const granule slab = linked(link);
        if (repopulate(owner, slab)) {
            of_.demand.note_wanted();
            upkeep_.relist(owner, slab, 1);
            return true;
        }
        link = of_.table.descriptor(slab).next;
    }
    return false;
}

std::uint64_t sparse_slabs::idle_classes(std::uint64_t now) const noexcept {
    std::uint64_t idle = (std::uint64_t{1} << class_count) - 1;
    for (unsigned i = 0; i < bins_.count(); ++i) {
        const base::scoped_lock lock(bins_[i].mutex);
        if (now - bins_[i].last_use < idle_after) {
            idle &= ~(std::uint64_t{1} << bins_[i].class_index);
        }
    }
    return idle;
}

/// Reads a state byte for each slab, and a cache line for these classes.
void sparse_slabs::make_sparse_of(std::uint64_t idle) noexcept {
    const std::uint64_t end = of_.end().value;
    for (granule slab{0}; idle != 0 && slab.value < end; ++slab.value) {
        const std::uint8_t state = of_.table.state(slab);
        if (slab_state::is_loaded(state) && (idle >> slab_state::class_of(state) & 1U) != 0) {
            try_make_sparse(slab);
        }
    }
}

void sparse_slabs::try_make_sparse(granule slab) noexcept {
    slab_descriptor& descriptor = of_.table.descriptor(slab);
    if (!descriptor.listed() || of_.table.type(slab) != 0) {
        return;
    }
    slab_bin& owner = *descriptor.owner.load(std::memory_order_acquire);
    const base::scoped_lock lock(owner.mutex);
    if (descriptor.parts_out != 0 || descriptor.is_empty) {
        return;
    }
    overlapped_.free_overlapped(slab);
    const std::uint16_t empty = pages_without_blocks(slab);
    if (count_bits(empty) < least_empty_pages) {
        return;
    }
    lists_.unlink(owner, slab);
    if (empty == all_pages) {  // it was not looked at since its last free
        upkeep_.relist(owner, slab, 1);
        return;
    }
    set_may_have_holes(of_.space, slab, true);
    lists_.link_sparse(owner, slab);
    descriptor.empty_pages = empty;
    upkeep_.relist_sparse(owner, slab);
}

sparse_pages sparse_slabs::make_sparse(bool all) {
    sparse_pages found;
    if (!of_.is_private()) {
        return found;
    }
    const std::uint64_t now = of_.demand.now();
    if (all || now - looked_for_idle_ >= idle_after) {
        looked_for_idle_ = now;
        make_sparse_of(all ? ~std::uint64_t{0} : idle_classes(now));
    }
    std::vector<granule> slabs;
    for (unsigned i = 0; i < bins_.count(); ++i) {
        const base::scoped_lock lock(bins_[i].mutex);
        for (std::uint32_t link = bins_[i].sparse; link != 0;) {
            const granule slab = linked(link);
            slab_descriptor& descriptor = of_.table.descriptor(slab);
            // A clean slab's bits are still right.
            if (descriptor.empty_pages == 0 || slab_state::is_dirty(of_.table.state(slab))) {
                descriptor.empty_pages = pages_without_blocks(slab);
            }
            slabs.push_back(slab);
            link = descriptor.next;
        }
    }
    std::ranges::sort(slabs, {}, &granule::value);
    for (const granule slab : slabs) {
        const slab_descriptor& descriptor = of_.table.descriptor(slab);
        add_pages(found.free, slab, descriptor.empty_pages);
        add_pages(found.holes, slab, descriptor.empty_pages & ~unsigned{descriptor.hole_pages});
    }
    return found;
}

void sparse_slabs::note_holes(const segment::free_runs& holes) noexcept {
    for (const auto& [start, length] : holes) {
        for (base::pages page = start; page < start + length; ++page.value) {
            slab_descriptor& descriptor = of_.table.descriptor(base::granule_of(page));
            if (descriptor.is_sparse()) {
                descriptor.hole_pages =
                    static_cast<std::uint16_t>(descriptor.hole_pages | 1U << (page.value % base::pages_per_granule));
            }
        }
    }
}

}  // namespace holdfast::slab
