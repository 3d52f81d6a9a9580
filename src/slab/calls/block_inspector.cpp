#include "slab/calls/block_inspector.hpp"

#include <bit>

#include <fmt/format.h>

#include "slab/calls/last_failure.hpp"

namespace holdfast::slab {

using base::failure;
using base::failure_code;
using base::granule;
using base::heap_offset;
using base::result;
using segment::extent_kind;

result<std::size_t> block_inspector::usable_size(const void* block) const {
    HF_TRY_ASSIGN(const lane::block_word found, look_up(block));
    return std::size_t{lane::bytes_of(found)};
}

result<std::uint32_t> block_inspector::type_of(const void* block) const {
    HF_TRY_ASSIGN(const lane::block_word found, look_up(block));
    return found.type;
}

std::optional<slab_block> block_inspector::find_small(std::uint64_t offset) const noexcept {
    const granule slab = base::granule_of(heap_offset{offset});
    const slab_table& table = core_.pool.table();
    for (;;) {
        const std::uint8_t state = table.state(slab);
        for (const slab_kind kind : table.kinds_in(slab, state)) {
            const size_class& size = kind.size();
            const std::uint32_t index = block_index(size, offset % base::granule_size);
            if (index < size.block_count &&
                (table.live_bits(slab, kind.first_word() + index / 64) >> (index % 64) & 1) != 0) {
                return slab_block{base::offset_of(slab).value + std::uint64_t{index} * size.block_size, kind};
            }
        }
        if (table.state(slab) == state) {
            return std::nullopt;  // else: it was loaded or morphed meanwhile
        }
    }
}

result<lane::block_word> block_inspector::look_up(const void* block) const {
    const heap_offset offset = core_.space.offset(block);
    const granule slab = base::granule_of(offset);
    if (slab.value >= core_.pool.table().granules()) {
        return refusal(block);
    }
    const std::uint8_t state = core_.pool.table().state(slab);
    if (slab_state::class_of(state) != no_class) {
        HF_TRY(core_.pool.source().admit(slab));
        const auto found = find_small(offset.value);
        if (found && found->start == offset.value) {
            return lane::block_word{lane::block_kind::small, found->kind.size().block_size,
                                    core_.pool.table().type(slab), found->kind.is_upper()};
        }
        return refusal(block);
    }
    if (state == slab_state::none && offset.value % base::page_size == 0) {
        const auto entry = core_.extents.find(base::page_of(offset));
        if (entry && entry->kind == extent_kind::used) {
            return lane::block_word{lane::block_kind::pages, entry->length.value, entry->type};
        }
    }
    return refusal(block);
}

namespace {

class live_blocks {
public:
    live_blocks(const slab_table& table, granule slab, slab_kind kind) noexcept
        : table_(table), slab_(slab), kind_(kind), size_(kind.size()) {
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
            bits_ = table_.live_bits(slab_, kind_.first_word() + word_) & valid_bits(size_, word_);
        }
        word_ -= bits_ == 0 ? 0 : 1;
    }

    const slab_table& table_;
    granule slab_;
    slab_kind kind_;
    const size_class& size_;
    std::size_t word_ = 0;
    std::uint64_t bits_ = 0;
};

}  // namespace

void block_inspector::for_each_block(block_visitor each) const {
    core_.extents.for_each([&](const extent::extent& found) {
        if (found.kind == extent_kind::used) {
            each(base::offset_of(found.start), base::to_bytes(found.length), found.type);
        }
        const granule slab = base::granule_of(found.start);
        const slab_kinds kinds = core_.pool.table().kinds_in(slab, core_.pool.table().state(slab));
        if (found.kind != extent_kind::slab || kinds.count == 0) {
            return;
        }
        const std::uint32_t type = core_.pool.table().type(slab);
        live_blocks present(core_.pool.table(), slab, kinds.kinds[0]);
        if (kinds.count == 1) {
            for (; !present.at_end(); present.next()) {
                each({present.offset()}, present.bytes(), type);
            }
            return;
        }
        live_blocks old(core_.pool.table(), slab, kinds.kinds[1]);
        while (!present.at_end() || !old.at_end()) {
            live_blocks& first = old.at_end() || (!present.at_end() && present.offset() < old.offset()) ? present : old;
            const heap_offset offset{first.offset()};
            first.next();
            each(offset, first.bytes(), type);
        }
    });
}

slab_occupancy block_inspector::occupancy(granule of) const noexcept {
    slab_occupancy counted;
    const slab_kinds kinds = core_.pool.table().kinds_in(of, core_.pool.table().state(of));
    for (unsigned i = 0; i < kinds.count; ++i) {
        const size_class& size = kinds.kinds[i].size();
        std::uint32_t live = 0;
        for (std::size_t word = 0; word < words_of(size); ++word) {
            live += count_bits(core_.pool.table().live_bits(of, kinds.kinds[i].first_word() + word) &
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

block_statistics block_inspector::statistics() const {
    block_statistics counted;
    core_.extents.for_each([&](const extent::extent& found) {
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
    counted.guard_ranges = core_.pool.source().guards().count();
    counted.free_extents = core_.extents.count(extent_kind::free);
    counted.free_pages =
        (core_.extents.free_pages() + core_.cached_extents.total() + extent::remote_of(core_.extents).waiting()).value;
    counted.largest_free_pages = core_.extents.largest_free().value;
    return counted;
}

bool block_inspector::all_free() const { return statistics().allocated_blocks == 0; }

std::optional<std::uint64_t> block_inspector::block_around(heap_offset offset) const noexcept {
    const base::granule slab = base::granule_of(offset);
    if (slab.value >= core_.pool.table().granules()) {
        return std::nullopt;
    }
    const std::uint8_t state = core_.pool.table().state(slab);
    if (state == slab_state::none) {
        const auto around = core_.extents.containing(base::page_of(offset));
        return around && around->kind == extent_kind::used ? std::optional(base::offset_of(around->start).value)
                                                           : std::nullopt;
    }
    const auto found = find_small(offset.value);
    return found ? std::optional(found->start) : std::nullopt;
}

std::uint8_t* block_inspector::block_state_of(std::uint64_t offset, lane::block_word block) const noexcept {
    const granule slab = granule_of(heap_offset{offset});
    const std::uint8_t state = core_.pool.table().state(slab);
    const unsigned class_index = class_of_block_size(block.length);
    if (!slab_state::is_loaded(state) || class_index == no_class) {
        return nullptr;
    }
    const slab_kind wanted(class_index, bank_of(block.upper));
    const std::uint8_t morph = core_.pool.table().morph_state(slab);
    const bool there =
        slab_state::kind_of(state) == wanted || (morph_state::has_old(morph) && morph_state::old_kind(morph) == wanted);
    return there ? core_.pool.table().block_state_at(offset, wanted) : nullptr;
}

failure block_inspector::refusal(const void* block) const {
    const heap_offset offset = core_.space.offset(block);
    failure what;
    what.code = failure_code::bad_address;
    what.field = fmt::format("address {:#x}", reinterpret_cast<std::uintptr_t>(block));
    what.expected = "the start of an allocated block";
    if (offset >= base::offset_of(core_.extents.frontier())) {
        what.found = fmt::format("an address outside the heap ({} to {})", fmt::ptr(core_.space.base()),
                                 fmt::ptr(core_.space.address(base::offset_of(core_.extents.frontier()))));
        return what;
    }
    const granule slab = base::granule_of(offset);
    const std::uint8_t state = core_.pool.table().state(slab);
    if (state == slab_state::quarantined) {
        what.code = failure_code::corrupt;
        what.found = fmt::format("a slab in granule {} whose header or bitmap is damaged", slab.value);
        return what;
    }
    if (core_.pool.pins().contains(offset.value)) {
        what.found = "a constructed object, or a block that is pinned";
        what.expected = "a block that is neither";
        what.hint = "destroy an object: that frees its block, too; unpin what no device uses any more";
        return what;
    }
    const unsigned class_index = slab_state::class_of(state);
    if (class_index == no_class) {
        const auto around = core_.extents.containing(base::page_of(offset));
        what.found =
            !around                              ? "no extent"
            : around->kind == extent_kind::free  ? "free memory"
            : around->kind == extent_kind::roots ? "the roots of the heap"
            : core_.cached_extents.contains(around->start) || (extent::remote_of(core_.extents).active() &&
                                                               extent::remote_of(core_.extents).is_gone(around->start))
                ? "free memory"
            : core_.pool.source().guards().contains(slab) ? "a guard range behind a slab"
            : around->kind == extent_kind::reserved       ? "a reserved block that was not published"
                                                          : "an address inside a block of whole pages";
        return what;
    }
    const size_class& size = size_classes[class_index];
    const std::uint32_t index = block_index(size, offset.value % base::granule_size);
    if (index >= size.block_count) {
        what.found = fmt::format("the unused end of a slab of {}-byte blocks", size.block_size);
    } else if (const auto around = find_small(offset.value); around && around->start != offset.value) {
        what.found = fmt::format("an address inside a block of {} bytes", around->kind.size().block_size);
    } else if (index * std::uint64_t{size.block_size} != offset.value % base::granule_size) {
        what.found = fmt::format("an address inside a block of {} bytes", size.block_size);
    } else {
        what.found = fmt::format("a free block of {} bytes (freed already?)", size.block_size);
    }
    return what;
}

void block_inspector::leave_refusal(const void* block) const noexcept {
    leave_failure(failure_code::bad_address, [&] { return refusal(block); });
}

}  // namespace holdfast::slab
