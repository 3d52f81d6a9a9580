#include "heap/trace/trace_map.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "slab/pool/slab_check.hpp"

namespace holdfast::heap {

using base::granule;
using base::pages;
using segment::extent_kind;

base::result<void> block_map::read(const extent::extent_allocator& extents, pages frontier,
                                   const std::function<void(const base::failure&)>& fault,
                                   const quarantine& quarantined) {
    end_ = base::to_bytes(frontier);
    HF_TRY_ASSIGN(granules_, base::sparse_table<std::uint64_t>::create(
                                 (end_ + base::granule_size - 1) / base::granule_size, "granules of a trace"));
    HF_TRY(extents.entries().read_blocks(frontier, [&](const extent::extent& found) {
        if (found.kind == extent_kind::used) {
            add_big({found.start, found.length, found.type, false});
        } else if (found.kind == extent_kind::slab) {
            const granule at = base::granule_of(found.start);
            const segment::slab_header_on_media& header = space_.slab_header(at);
            if (const auto wrong = slab::header_fault(header, at)) {
                fault(*wrong);
                add_big({found.start, found.length, 0, true});
            } else if (quarantined && quarantined(at)) {
                // Pointers to any of its blocks keep all.
                base::failure what;
                what.code = base::failure_code::corrupt;
                what.field = fmt::format("slab in granule {}", at.value);
                what.found = "a live bitmap that is damaged, or has no space on disk";
                what.expected = "one that says which blocks are allocated";
                fault(what);
                add_big({found.start, found.length, 0, true});
            } else {
                add_slab(at, header);
            }
        }
    }));
    if (slab_words_ >> first_word_bits != 0 || big_.size() >= std::uint32_t{0} - 1U) {
        base::failure what;
        what.code = base::failure_code::limit;
        what.field = "blocks of a trace";
        what.found = fmt::format("{} big ones, {} words of marks for small ones", big_.size(), slab_words_);
        what.expected = fmt::format("less than 2^32 - 1, less than 2^{}", first_word_bits);
        return what;
    }
    HF_TRY_ASSIGN(marks_, base::sparse_table<std::uint64_t>::create(slab_words_ + big_.size() / 64 + 1, "marks"));
    return {};
}

void block_map::add_slab(granule at, const segment::slab_header_on_media& header) {
    block_bytes_ += base::granule_size;
    if (slab::is_morphed(header)) {
        add_morphed(at, header);
        return;
    }
    const unsigned class_index = slab::class_of_block_size(header.block_size);
    granules_[at.value] = kind_slab | std::uint64_t{class_index} << 2 |
                          (slab_words_ & ((std::uint64_t{1} << first_word_bits) - 1)) << 8 | header.type << type_shift;
    slab_words_ += slab::words_of(slab::size_classes[class_index]);
}

/// The old half of the bitmap covers all old blocks that live, and present blocks do not overlap what it covers
/// (TRACE-7).
void block_map::add_morphed(granule at, const segment::slab_header_on_media& header) {
    const std::uint8_t morph = slab::morph_state_of(header);
    granules_[at.value] = morphed | morphed_.size() << 2;
    morphed_slab& added = morphed_.emplace_back();
    added.present = add_blocks(at, {slab::class_of_block_size(header.block_size), slab::morph_state::bank(morph)});
    if (slab::morph_state::has_old(morph)) {
        added.old = add_blocks(at, slab::morph_state::old_kind(morph));
        const slab::size_class& size = slab::size_classes[added.old.class_index];
        const std::uint64_t* const on_media = space_.live_bitmap(at) + added.old.first_on_media;
        for (std::size_t word = 0; word < slab::words_of(size); ++word) {
            added.old_bits[word] = on_media[word] & slab::valid_bits(size, word);
        }
    }
}

block_map::slab_blocks block_map::add_blocks(granule at, slab::slab_kind kind) {
    const slab_blocks added{at, kind.class_index(), 0, slab_words_, kind.first_word()};
    slab_words_ += slab::words_of(slab::size_classes[added.class_index]);
    return added;
}

bool block_map::fill(const slab_blocks& of, std::uint32_t index, found_block& found) const noexcept {
    const slab::size_class& size = slab::size_classes[of.class_index];
    found.offset = base::offset_of(of.at).value + std::uint64_t{index} * size.block_size;
    found.bytes = size.block_size;
    found.type = of.type;
    found.opaque = false;
    found.word = &marks_[of.first_word + index / 64];
    found.bit = std::uint64_t{1} << (index % 64);
    return index < size.block_count;
}

bool block_map::find_morphed(std::uint64_t entry, std::uint64_t offset, found_block& found) const noexcept {
    const morphed_slab& slab = morphed_[(entry & ~morphed) >> 2];
    const std::uint64_t within = offset % base::granule_size;
    if (slab.old.class_index != slab::no_class) {
        const slab::size_class& size = slab::size_classes[slab.old.class_index];
        const std::uint32_t index = slab::block_index(size, within);
        if (has_old(slab, index)) {
            return fill(slab.old, index, found);
        }
    }
    const slab::size_class& size = slab::size_classes[slab.present.class_index];
    const std::uint32_t index = slab::block_index(size, within);
    return !is_overlapped(slab, index) && fill(slab.present, index, found);
}

bool block_map::has_old(const morphed_slab& slab, std::uint32_t index) noexcept {
    return index < slab::size_classes[slab.old.class_index].block_count &&
           (slab.old_bits[index / 64] >> (index % 64) & 1) != 0;
}

bool block_map::is_overlapped(const morphed_slab& slab, std::uint32_t index) noexcept {
    if (slab.old.class_index == slab::no_class) {
        return false;
    }
    const slab::size_class& old = slab::size_classes[slab.old.class_index];
    const std::uint64_t size = slab::size_classes[slab.present.class_index].block_size;
    const std::uint32_t last = slab::block_index(old, (index + 1) * size - 1);
    for (std::uint32_t i = slab::block_index(old, index * size); i <= last; ++i) {
        if (has_old(slab, i)) {
            return true;
        }
    }
    return false;
}

void block_map::add_big(const big_block& added) {
    const std::uint64_t index = big_.size();
    big_.push_back(added);
    block_bytes_ += base::to_bytes(added.length);
    const std::uint64_t end = added.start.value + added.length.value;
    for (std::uint64_t page = added.start.value; page < end;) {
        std::uint64_t& entry = granules_[page / base::pages_per_granule];
        const std::uint64_t until = std::min(end, (page / base::pages_per_granule + 1) * base::pages_per_granule);
        if (until - page == base::pages_per_granule) {
            entry = kind_big | index << 2;
        } else {
            if (entry == 0) {
                entry = kind_pages | pages_.size() << 2;
                pages_.emplace_back();
            }
            page_owners& owners = pages_[entry >> 2];
            for (std::uint64_t i = page; i < until; ++i) {
                owners[i % base::pages_per_granule] = static_cast<std::uint32_t>(index + 1);
            }
        }
        page = until;
    }
}

bool block_map::find_big(std::uint64_t entry, pages page, found_block& found) const noexcept {
    std::uint64_t index = entry >> 2;
    if ((entry & kind_mask) == kind_pages) {
        const std::uint32_t owner = pages_[index][page.value % base::pages_per_granule];
        if (owner == 0) {
            return false;
        }
        index = owner - 1;
    }
    const big_block& block = big_[index];
    found.offset = base::offset_of(block.start).value;
    found.bytes = base::to_bytes(block.length);
    found.type = block.type;
    found.opaque = block.opaque;
    found.word = &marks_[big_word(index)];
    found.bit = std::uint64_t{1} << (index % 64);
    return true;
}

block_map::slab_content block_map::slab_at(granule at) const noexcept {
    const std::uint64_t entry = granules_[at.value];
    if ((entry & morphed) == morphed) {
        const morphed_slab& slab = morphed_[(entry & ~morphed) >> 2];
        return {{slab.present, slab.old}, slab.old.class_index == slab::no_class ? 1U : 2U};
    }
    if ((entry & kind_mask) != kind_slab) {
        return {};
    }
    return {{slab_blocks{at, class_of(entry), static_cast<std::uint32_t>(entry >> type_shift), first_word_of(entry), 0},
             {}},
            1};
}

base::result<void> block_map::only_live() {
    HF_TRY_ASSIGN(live_, base::sparse_table<std::uint64_t>::create(marks_.size(), "live blocks of a trace"));
    for (std::uint64_t word = 0; word < slab_words_; ++word) {
        marks_[word] = ~std::uint64_t{0};
    }
    for (morphed_slab& slab : morphed_) {
        slab.old_bits = {};
    }
    for (std::uint64_t index = 0; index < big_.size(); ++index) {
        live_[big_word(index)] |= std::uint64_t{1} << (index % 64);
    }
    return {};
}

void block_map::set_live(std::uint64_t offset, std::uint64_t bytes) noexcept {
    const std::uint64_t entry = granules_[offset / base::granule_size];
    if ((entry & morphed) == morphed) {
        morphed_slab& slab = morphed_[(entry & ~morphed) >> 2];
        if (slab.old.class_index != slab::no_class && slab::size_classes[slab.old.class_index].block_size == bytes) {
            const std::uint32_t index =
                slab::block_index(slab::size_classes[slab.old.class_index], offset % base::granule_size);
            slab.old_bits[index / 64] |= std::uint64_t{1} << (index % 64);
        }
    }
    found_block block;
    if (find(offset, block)) {
        live_[marks_.index_of(*block.word)] |= block.bit;
        if (block.word < &marks_[0] + slab_words_) {
            *block.word &= ~block.bit;
        }
    }
}

}  // namespace holdfast::heap
