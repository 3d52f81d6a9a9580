#include "heap/operations/block_sizes.hpp"

#include "base/checked.hpp"

namespace holdfast::heap {

bool can_stay(const slab::held_block& old, const void* address, const block_request& wanted) noexcept {
    return old.block.kind == lane::block_kind::pages && (wanted.type == 0 || wanted.type == old.block.type) &&
           !wanted.zeroed && reinterpret_cast<std::uintptr_t>(address) % wanted.alignment == 0 &&
           wanted.bytes <= old.bytes() && wanted.bytes > old.bytes() / 2;
}

std::uint64_t bytes_with_room(std::uint64_t usable, std::uint64_t wanted) noexcept {
    const bool grows = wanted > usable && usable >= base::granule_size;
    return grows ? base::checked_add(wanted, wanted / 4).value_or(wanted) : wanted;
}

}  // namespace holdfast::heap
