#include "heap/operations/destination_operations.hpp"

#include <new>

#include <fmt/format.h>

#include "base/units.hpp"

namespace holdfast::heap {

using base::failure;
using base::failure_code;

namespace {

failure refused_address(const void* address, const char* found, const char* expected) noexcept {
    failure what;
    what.code = failure_code::bad_address;
    try {
        what.field = fmt::format("address {:#x}", reinterpret_cast<std::uintptr_t>(address));
        what.found = found;
        what.expected = expected;
    } catch (const std::bad_alloc&) {  // the code suffices
    }
    return what;
}

}  // namespace

failure refused_destination(const std::uint64_t& word, std::uint64_t offset, std::uint64_t end) noexcept {
    failure what;
    what.code = failure_code::bad_address;
    try {
        what.field = fmt::format("destination {:#x}", reinterpret_cast<std::uintptr_t>(&word));
        what.found = offset >= end               ? "a word outside the heap"
                     : offset % sizeof word != 0 ? "a word that is not aligned to 8"
                                                 : "a word in memory that is not allocated";
        what.expected = "a ptr in a root or in an allocated block of this heap";
        what.hint = "a reserved block holds no destinations before it is published";
    } catch (const std::bad_alloc&) {  // the code suffices
    }
    return what;
}

failure refused_reservation(const void* address) noexcept {
    return refused_address(address, "no reserved block",
                           "a block that reserve() returned, neither published nor cancelled");
}

failure refused_free(const void* address) noexcept {
    return refused_address(address, "a block that is to be freed twice", "the start of an allocated block");
}

failure refused_child() noexcept {
    failure what;
    what.code = failure_code::wrong_process;
    try {
        what.field = "process";
        what.found = "a child of fork";
        what.expected = "the process that opened the heap";
    } catch (const std::bad_alloc&) {  // the code suffices
    }
    return what;
}

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
