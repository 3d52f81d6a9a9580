// Blocks with a type number, which lie in slabs of their own.
//
// A slab has one class and one type, so the type costs its blocks nothing: it is in the slab's header on media and,
// beside the state byte, in DRAM.
#include <fmt/format.h>

#include "slab/slab.hpp"

namespace holdfast::slab {

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
