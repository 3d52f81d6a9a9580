// Slabs with a type number: their bins, and the blocks that are taken from them and put back.
//
// A slab has one class and one type, so the type costs its blocks nothing: it is in the slab's header on media and,
// beside the state byte, in DRAM.
#include <fmt/format.h>

#include "slab/slab.hpp"

namespace holdfast::slab {

using base::granule;

namespace {

constexpr std::uint64_t key_of(unsigned class_index, std::uint32_t type) noexcept {
    return std::uint64_t{type} * 64 + class_index;
}
static_assert(class_count <= 64);

}  // namespace

// --- the bins -------------------------------------------------------------------------------------------------------

slab_pool::typed_bin* slab_pool::find_typed_bin(unsigned class_index, std::uint32_t type) noexcept {
    const base::scoped_lock lock(typed_mutex_);
    const auto found = typed_bins_.find(key_of(class_index, type));
    return found == typed_bins_.end() ? nullptr : found->second.get();
}

slab_pool::typed_bin& slab_pool::typed_bin_of(unsigned class_index, std::uint32_t type) {
    const base::scoped_lock lock(typed_mutex_);
    std::unique_ptr<typed_bin>& place = typed_bins_[key_of(class_index, type)];
    if (place == nullptr) {
        try {
            place = std::make_unique<typed_bin>();
        } catch (...) {
            typed_bins_.erase(key_of(class_index, type));  // so that no entry is ever null
            throw;
        }
        place->class_index = class_index;
        place->type = type;
        place->next = first_typed_.load(std::memory_order_relaxed);
        first_typed_.store(place.get(), std::memory_order_release);
    }
    return *place;
}

bool slab_pool::load_next_typed(typed_bin& owner) noexcept {
    while (owner.waiting.size() > owner.refused) {
        const granule slab{owner.waiting.back()};
        // A slab that a free has loaded meanwhile, or a new slab in its granule, is never unloaded again.
        if (table_.state(slab) != slab_state::unloaded(owner.class_index)) {
            owner.waiting.pop_back();
            continue;
        }
        if (load_into(owner, slab)) {
            owner.waiting.pop_back();
        } else {
            std::swap(owner.waiting.back(), owner.waiting[owner.refused++]);
        }
        return true;
    }
    owner.refused = 0;
    return false;
}

base::result<void> slab_pool::load_typed(granule unloaded, unsigned class_index) noexcept {
    typed_bin* const owner = find_typed_bin(class_index, table_.type(unloaded));
    if (owner == nullptr) {
        return {};  // another thread loaded and emptied it, and made another slab there
    }
    const base::scoped_lock lock(owner->mutex);
    if (table_.state(unloaded) == slab_state::unloaded(class_index)) {  // no other thread was faster
        return load_into(*owner, unloaded);
    }
    return {};
}

// --- the blocks -----------------------------------------------------------------------------------------------------

/// Whether the number is a type number; where it is not, leaves invalid_argument.
bool block_allocator::is_type(std::uint32_t type) noexcept {
    if (type < segment::type_limit) {
        return true;
    }
    base::failure what;
    what.code = base::failure_code::invalid_argument;
    try {
        what.field = "type";
        what.found = fmt::format("{}", type);
        what.expected = fmt::format("a type number below {}", segment::type_limit);
    } catch (const std::bad_alloc&) {  // the code says enough
    }
    leave(std::move(what));
    return false;
}

void* block_allocator::allocate_typed(std::size_t bytes, std::size_t alignment, std::uint32_t type) noexcept {
    if (!is_type(type)) {
        return nullptr;
    }
    const unsigned class_index = class_of(bytes, alignment);
    if (class_index == no_class) {
        return allocate_pages(bytes, alignment, type);
    }
    const rare_call call(gate_);
    if (!call.is_first()) {
        leave_interruption();
        return nullptr;
    }
    const std::uint64_t offset = take_one(class_index, type);
    if (offset == 0) {
        return nullptr;
    }
    pool_.hand_out(offset);
    return space_.address({offset});
}

bool block_allocator::hold_typed(std::size_t bytes, std::size_t alignment, std::uint32_t type,
                                 held_block& held) noexcept {
    if (!is_type(type)) {
        return false;
    }
    const unsigned class_index = class_of(bytes, alignment);
    if (class_index == no_class) {
        return hold_pages(bytes, alignment, type, held);
    }
    const rare_call call(gate_);
    if (!call.is_first()) {
        leave_interruption();
        return false;
    }
    return hold_one(class_index, type, held);
}

}  // namespace holdfast::slab
