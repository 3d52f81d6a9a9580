#include "slab/supply/slab_supply.hpp"

#include <bit>
#include <type_traits>

namespace holdfast::slab {

using base::granule;

namespace {

/// Bounds a request's time where all unloaded slabs are full.
constexpr int loads_a_take = 32;

bool has_free(const slab_table& table, slab_part of, unsigned class_index) noexcept {
    const block_range blocks = of.blocks(size_classes[class_index]);
    const slab_kind kind = table.kind_in(of.slab);
    for (std::size_t word = blocks.first_word(); word < blocks.end_word(); ++word) {
        if ((table.free_bits(of.slab, kind, word) & blocks.bits(word)) != 0) {
            return true;
        }
    }
    return false;
}

slab_part widen(const slab_table& table, slab_part found, unsigned class_index) noexcept {
    const unsigned out = table.descriptor(found.slab).parts_out;
    while (found.part != 0 && (out >> (found.part - 1) & 1U) == 0) {
        --found.part;
        ++found.parts;
    }
    while (found.part + found.parts < parts_of(size_classes[class_index]) &&
           (out >> (found.part + found.parts) & 1U) == 0) {
        ++found.parts;
    }
    return found;
}

}  // namespace

std::optional<slab_part> slab_supply::part_of(slab_bin& from, granule slab) noexcept {
    slab_descriptor& descriptor = of_.table.descriptor(slab);
    for (unsigned part = 0; part < parts_of(size_classes[from.class_index]); ++part) {
        slab_part found{slab, part};
        if ((descriptor.parts_out >> part & 1U) != 0 || !has_free(of_.table, found, from.class_index)) {
            continue;
        }
        if (gives_whole_slabs()) {
            found = widen(of_.table, found, from.class_index);
        }
        descriptor.parts_out = static_cast<std::uint8_t>(descriptor.parts_out | found.mask());
        from_.upkeep.note_use(from, slab);
        return found;
    }
    return std::nullopt;
}

std::optional<std::uint64_t> slab_supply::block_of(slab_bin& from, granule slab) noexcept {
    const size_class& size = size_classes[from.class_index];
    slab_descriptor& descriptor = of_.table.descriptor(slab);
    const std::size_t words = words_of(size);
    for (std::size_t step = 0; step < words; ++step) {
        const std::size_t word = (descriptor.first_word + step) % words;
        const std::uint64_t free_blocks = from_.upkeep.bits_at_hand(slab, from.class_index, word);
        if (free_blocks != 0) {
            const std::size_t index = word * states_a_word + static_cast<std::size_t>(std::countr_zero(free_blocks));
            std::atomic_ref(of_.table.block_states(slab, of_.table.kind_in(slab))[index])
                .store(block_state::held, std::memory_order_relaxed);
            descriptor.first_word = static_cast<std::uint8_t>(word);
            descriptor.count_out(1);
            from_.upkeep.note_use(from, slab);
            return base::offset_of(slab).value + index * size.block_size;
        }
    }
    return std::nullopt;
}

template <class Taken>
std::optional<Taken> slab_supply::take_listed(slab_bin& from) noexcept {
    while (slab_lists::has_listed(from)) {
        const granule slab = slab_lists::first_listed(from);
        std::optional<Taken> taken;
        if constexpr (std::is_same_v<Taken, slab_part>) {
            taken = part_of(from, slab);
        } else {
            taken = block_of(from, slab);
        }
        if (taken) {
            return taken;
        }
        from_.lists.unlink(from, slab);
        from_.upkeep.relist(from, slab, from_.upkeep.worth(from));
    }
    return std::nullopt;
}

template <class Taken>
std::optional<Taken> slab_supply::take_sparse(slab_bin& from) noexcept {
    for (int tries = 0; tries < tries_a_take && from_.sparse.repopulate_next(from); ++tries) {
        if (const auto taken = take_listed<Taken>(from)) {
            return taken;
        }
    }
    return std::nullopt;
}

/// Where space is short, slabs of any arena will do.
template <class Taken>
std::optional<Taken> slab_supply::take_known(slab_bin& own) noexcept {
    {
        const base::scoped_lock lock(own.mutex);
        std::optional<Taken> taken = take_listed<Taken>(own);
        for (int loads = 0; !taken && loads < loads_a_take && from_.loader.load_next(own); ++loads) {
            taken = take_listed<Taken>(own);
        }
        if (taken) {
            return taken;
        }
    }
    if (own.type == 0 && of_.demand.is_space_short()) {
        for (unsigned arena = 0; arena < from_.bins.arenas(); ++arena) {
            slab_bin& from = from_.bins.of(arena, own.class_index);
            const base::scoped_lock lock(from.mutex);
            if (const auto taken = take_listed<Taken>(from)) {
                return taken;
            }
        }
    }
    return std::nullopt;
}

template <class Taken>
base::result<Taken> slab_supply::take_listed_or_new(slab_bin& own) {
    std::optional<Taken> taken = take_listed<Taken>(own);
    if (!taken) {
        HF_TRY(create(own));
        taken = take_listed<Taken>(own);
    }
    return *taken;
}

template <class Taken>
std::optional<Taken> slab_supply::take_all_of(slab_bin& from) noexcept {
    const base::scoped_lock lock(from.mutex);
    std::optional<Taken> taken = take_listed<Taken>(from);
    while (!taken && from_.loader.load_next_of_all(from)) {
        taken = take_listed<Taken>(from);
    }
    return taken ? taken : take_sparse<Taken>(from);
}

template <class Taken>
std::optional<Taken> slab_supply::take_anywhere(unsigned class_index) noexcept {
    std::optional<Taken> taken;
    for (unsigned arena = 0; arena < from_.bins.arenas() && !taken; ++arena) {
        taken = take_all_of<Taken>(from_.bins.of(arena, class_index));
    }
    return taken;
}

/// Earlier attempts may have skipped slabs with few free blocks.
void slab_supply::search_everywhere() noexcept {
    of_.demand.set_space_short(true);
    from_.upkeep.inspect_every_slab();
}

base::result<void> slab_supply::create(slab_bin& owner) {
    of_.demand.note_wanted();
    const std::uint32_t node = owner.type == 0 ? of_.node_of_arena(owner.arena) : extent::any_node;
    HF_TRY_ASSIGN(const granule slab, from_.made.make(owner.class_index, owner.type, node));
    from_.lists.adopt(owner, slab);
    of_.table.set_morph_state(slab, 0);
    of_.table.set_type(slab, owner.type);
    of_.table.set_state(slab, slab_state::loaded(slab_kind(owner.class_index, slab_bank::lower)));
    from_.lists.link(owner, slab, true);
    of_.demand.set_space_short(false);
    return {};
}

base::result<slab_part> slab_supply::check_out(unsigned arena, unsigned class_index) {
    slab_bin& own = from_.bins.of(arena, class_index);
    if (const auto taken = take_known<slab_part>(own)) {
        return *taken;
    }
    if (from_.remote.active()) {
        from_.remote.merge(of_.node_of_arena(arena));
    }
    from_.upkeep.inspect_some(arena);
    {
        const base::scoped_lock lock(own.mutex);
        if (const auto taken = take_sparse<slab_part>(own)) {
            return *taken;
        }
    }
    from_.morpher.morph_some(own);
    const base::scoped_lock lock(own.mutex);
    return take_listed_or_new<slab_part>(own);
}

std::optional<slab_part> slab_supply::check_out_anywhere(unsigned class_index) noexcept {
    search_everywhere();
    return take_anywhere<slab_part>(class_index);
}

void slab_supply::check_in(slab_part from) noexcept {
    slab_descriptor& descriptor = of_.table.descriptor(from.slab);
    slab_bin& owner = *descriptor.owner.load(std::memory_order_relaxed);
    {
        const base::scoped_lock lock(owner.mutex);
        descriptor.parts_out = static_cast<std::uint8_t>(descriptor.parts_out & ~from.mask());
        if (descriptor.listed()) {
            from_.lists.unlink(owner, from.slab);
        }
        from_.upkeep.relist(owner, from.slab, from_.upkeep.worth(owner));
    }
    from_.upkeep.age();
}

base::result<std::uint64_t> slab_supply::take_one(unsigned arena, unsigned class_index, std::uint32_t type) {
    slab_bin& own = type == 0 ? from_.bins.of(arena, class_index) : from_.bins.typed(class_index, type);
    if (const auto taken = take_known<std::uint64_t>(own)) {
        return *taken;
    }
    from_.remote.merge_all();  // slabs with a type may lie on any node
    const base::scoped_lock lock(own.mutex);
    if (const auto taken = take_listed<std::uint64_t>(own)) {
        return *taken;
    }
    if (const auto taken = take_sparse<std::uint64_t>(own)) {
        return *taken;
    }
    return take_listed_or_new<std::uint64_t>(own);
}

std::optional<std::uint64_t> slab_supply::take_one_anywhere(unsigned class_index, std::uint32_t type) noexcept {
    search_everywhere();
    if (type == 0) {
        return take_anywhere<std::uint64_t>(class_index);
    }
    typed_bin* const only = from_.bins.find_typed(class_index, type);
    return only == nullptr ? std::nullopt : take_all_of<std::uint64_t>(*only);
}

}  // namespace holdfast::slab
