#include "heap/trace_map.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "slab/slab_check.hpp"

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
    HF_TRY(extents.read_blocks(frontier, [&](const extent::extent& found) {
        if (found.kind == extent_kind::used) {
            add_big({found.start, found.length, found.type, false});
        } else if (found.kind == extent_kind::slab) {
            const granule at = base::granule_of(found.start);
            const segment::slab_header_on_media& header = space_.slab_header(at);
            if (const auto wrong = slab::header_fault(header, at)) {
                fault(*wrong);
                add_big({found.start, found.length, 0, true});
            } else if (quarantined && quarantined(at)) {
                // Which of its blocks live nobody knows: what any of them leads to is kept.
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
    const unsigned class_index = slab::class_of_block_size(header.block_size);
    granules_[at.value] = kind_slab | std::uint64_t{class_index} << 2 |
                          (slab_words_ & ((std::uint64_t{1} << first_word_bits) - 1)) << 8 | header.type << type_shift;
    slab_words_ += slab::words_of(slab::size_classes[class_index]);
    block_bytes_ += base::granule_size;
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

std::optional<block_map::slab_blocks> block_map::slab_at(granule at) const noexcept {
    const std::uint64_t entry = granules_[at.value];
    if ((entry & kind_mask) != kind_slab) {
        return std::nullopt;
    }
    return slab_blocks{at, class_of(entry), static_cast<std::uint32_t>(entry >> type_shift), first_word_of(entry)};
}

base::result<void> block_map::only_live() {
    HF_TRY_ASSIGN(live_, base::sparse_table<std::uint64_t>::create(marks_.size(), "live blocks of a trace"));
    for (std::uint64_t word = 0; word < slab_words_; ++word) {
        marks_[word] = ~std::uint64_t{0};
    }
    for (std::uint64_t index = 0; index < big_.size(); ++index) {
        live_[big_word(index)] |= std::uint64_t{1} << (index % 64);
    }
    return {};
}

void block_map::set_live(std::uint64_t offset) noexcept {
    found_block block;
    if (find(offset, block)) {
        live_[marks_.index_of(*block.word)] |= block.bit;
        if (block.word < &marks_[0] + slab_words_) {
            *block.word &= ~block.bit;
        }
    }
}

}  // namespace holdfast::heap
