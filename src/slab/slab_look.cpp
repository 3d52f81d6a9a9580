// Finds what is allocated, at one address and in all slabs, without changing anything.
#include <bit>

#include "slab/slab.hpp"

namespace holdfast::slab {

using base::granule;
using base::heap_offset;
using base::result;
using segment::extent_kind;

result<std::size_t> block_allocator::usable_size(const void* block) const {
    HF_TRY_ASSIGN(const lane::block_word found, look_up(block));
    return std::size_t{lane::bytes_of(found)};
}

result<std::uint32_t> block_allocator::type_of(const void* block) const {
    HF_TRY_ASSIGN(const lane::block_word found, look_up(block));
    return found.type;
}

/// The live small block that contains the offset.
std::optional<slab_block> block_allocator::find_small(std::uint64_t offset) const noexcept {
    const granule slab = base::granule_of(heap_offset{offset});
    const slab_table& table = pool_.table();
    for (;;) {
        const std::uint8_t state = table.state(slab);
        for (const unsigned kind : table.kinds_in(slab, state)) {
            const size_class& size = size_classes[slab_state::class_of_kind(kind)];
            const std::uint32_t index = block_index(size, offset % base::granule_size);
            if (index < size.block_count &&
                (table.live_bits(slab, slab_state::first_word_of(kind) + index / 64) >> (index % 64) & 1) != 0) {
                return slab_block{base::offset_of(slab).value + std::uint64_t{index} * size.block_size, kind};
            }
        }
        if (table.state(slab) == state) {
            return std::nullopt;  // else: it was loaded or morphed meanwhile
        }
    }
}

/// The allocated block that starts at the address.
result<lane::block_word> block_allocator::look_up(const void* block) const {
    const heap_offset offset = space_.offset(block);
    const granule slab = base::granule_of(offset);
    if (slab.value >= pool_.table().granules()) {
        return refusal(block);
    }
    const std::uint8_t state = pool_.table().state(slab);
    if (slab_state::class_of(state) != no_class) {
        HF_TRY(pool_.source().admit(slab));
        const auto found = find_small(offset.value);
        if (found && found->start == offset.value) {
            return lane::block_word{lane::block_kind::small,
                                    size_classes[slab_state::class_of_kind(found->kind)].block_size,
                                    pool_.table().type(slab), (found->kind & slab_state::upper_bank) != 0};
        }
        return refusal(block);
    }
    if (state == slab_state::none && offset.value % base::page_size == 0) {
        const auto entry = extents_.find(base::page_of(offset));
        if (entry && entry->kind == extent_kind::used) {
            return lane::block_word{lane::block_kind::pages, entry->length.value, entry->type};
        }
    }
    return refusal(block);
}

namespace {

/// The live blocks of one kind in a slab, in order.
class live_blocks {
public:
    live_blocks(const slab_table& table, granule slab, unsigned kind) noexcept
        : table_(table), slab_(slab), kind_(kind), size_(size_classes[slab_state::class_of_kind(kind)]) {
        read(0);
    }
    [[nodiscard]] bool at_end() const noexcept { return bits_ == 0; }
    [[nodiscard]] std::uint32_t bytes() const noexcept { return size_.block_size; }
    [[nodiscard]] std::uint64_t offset() const noexcept {
        const std::uint64_t index = word_ * 64 + static_cast<std::uint64_t>(std::countr_zero(bits_));
        return base::offset_of(slab_).value + index * size_.block_size;
    }
    void next() noexcept {
        bits_ &= bits_ - 1;
        if (bits_ == 0) {
            read(word_ + 1);
        }
    }

private:
    void read(std::size_t from) noexcept {
        for (word_ = from; word_ < words_of(size_) && bits_ == 0; ++word_) {
            bits_ = table_.live_bits(slab_, slab_state::first_word_of(kind_) + word_) & valid_bits(size_, word_);
        }
        word_ -= bits_ == 0 ? 0 : 1;
    }

    const slab_table& table_;
    granule slab_;
    unsigned kind_;
    const size_class& size_;
    std::size_t word_ = 0;
    std::uint64_t bits_ = 0;  ///< bits of the present word that are left
};

}  // namespace

void block_allocator::for_each_block(block_visitor each) const {
    extents_.for_each([&](const extent::extent& found) {
        if (found.kind == extent_kind::used) {
            each(base::offset_of(found.start), base::to_bytes(found.length), found.type);
        }
        const granule slab = base::granule_of(found.start);
        const slab_kinds kinds = pool_.table().kinds_in(slab, pool_.table().state(slab));
        if (found.kind != extent_kind::slab || kinds.count == 0) {
            return;
        }
        const std::uint32_t type = pool_.table().type(slab);
        live_blocks present(pool_.table(), slab, kinds.kinds[0]);
        if (kinds.count == 1) {
            for (; !present.at_end(); present.next()) {
                each({present.offset()}, present.bytes(), type);
            }
            return;
        }
        live_blocks old(pool_.table(), slab, kinds.kinds[1]);
        while (!present.at_end() || !old.at_end()) {
            live_blocks& first = old.at_end() || (!present.at_end() && present.offset() < old.offset()) ? present : old;
            const heap_offset offset{first.offset()};
            first.next();
            each(offset, first.bytes(), type);
        }
    });
}

slab_occupancy block_allocator::occupancy(granule of) const noexcept {
    slab_occupancy counted;
    const slab_kinds kinds = pool_.table().kinds_in(of, pool_.table().state(of));
    for (unsigned i = 0; i < kinds.count; ++i) {
        const size_class& size = size_classes[slab_state::class_of_kind(kinds.kinds[i])];
        std::uint32_t live = 0;
        for (std::size_t word = 0; word < words_of(size); ++word) {
            live += count_bits(pool_.table().live_bits(of, slab_state::first_word_of(kinds.kinds[i]) + word) &
                               valid_bits(size, word));
        }
        if (i == 0) {
            counted.block_size = size.block_size;
            counted.blocks = size.block_count;
            counted.live_blocks = live;
        } else if (live != 0) {
            counted.old_block_size = size.block_size;
            counted.old_live_blocks = live;
        }
    }
    return counted;
}

block_statistics block_allocator::statistics() const {
    block_statistics counted;
    extents_.for_each([&](const extent::extent& found) {
        if (found.kind == extent_kind::used) {
            ++counted.big_blocks;
            counted.big_bytes += base::to_bytes(found.length);
        }
        if (found.kind != extent_kind::slab) {
            return;
        }
        ++counted.slabs;
        const slab_occupancy slab = occupancy(base::granule_of(found.start));
        counted.quarantined_slabs += slab.block_size == 0 ? 1 : 0;
        counted.small_blocks += slab.live_blocks + slab.old_live_blocks;
        counted.small_bytes += std::uint64_t{slab.live_blocks} * slab.block_size +
                               std::uint64_t{slab.old_live_blocks} * slab.old_block_size;
    });
    counted.allocated_blocks = counted.small_blocks + counted.big_blocks;
    counted.allocated_bytes = counted.small_bytes + counted.big_bytes;
    counted.guard_ranges = pool_.source().guards().count();
    counted.free_extents = extents_.count(extent_kind::free);
    counted.free_pages = (extents_.free_pages() + cached_extents_.total()).value;
    counted.largest_free_pages = extents_.largest_free().value;
    return counted;
}

bool block_allocator::all_free() const { return statistics().allocated_blocks == 0; }

}  // namespace holdfast::slab
