#include "heap/reallocate.hpp"

#include <algorithm>
#include <cstring>

#include "base/units.hpp"
#include "heap/heap_operations.hpp"
#include "heap/operations/destination_operations.hpp"
#include "segment/files/private_memory.hpp"
#include "slab/classes/size_classes.hpp"

namespace holdfast::heap {

namespace {

constexpr std::uint64_t smallest_worth_moving = 32;

/// A block that shrinks stays unless half of it or more would be idle and a much smaller one exists.
bool fits(const heap_parts& heap, std::uint64_t usable, std::uint64_t bytes) noexcept {
    const std::uint64_t least = heap.separates_cache_lines() ? base::cache_line_size : smallest_worth_moving;
    return bytes <= usable && (usable <= least || bytes > usable / 2);
}

void carry(void* to, void* from, std::uint64_t bytes, bool is_private) noexcept {
    if (is_private) {
        segment::move_private_memory(static_cast<std::byte*>(to), static_cast<std::byte*>(from), bytes);
    } else {
        std::memcpy(to, from, bytes);
    }
}

/// Where memory is private, pages that nobody touches take addresses alone. So a block of a page or more that grows
/// doubles, up to what may be idle while others use it, and in whole pages, which are not mapped before they are
/// touched.
std::uint64_t bytes_with_private_room(std::uint64_t usable, std::uint64_t wanted) noexcept {
    constexpr std::uint64_t most_room = 8 * base::mebibyte;
    if (wanted <= usable || usable < base::page_size) {
        return wanted;
    }
    const std::uint64_t more = std::max(wanted / 4, std::min(wanted, most_room));
    return std::max(base::checked_add(wanted, more).value_or(wanted), slab::maximum_small_size + 1);
}

}  // namespace

void* reallocate(heap_operations& heap, void* block, std::uint64_t bytes, std::uint64_t alignment) noexcept {
    const slab::change_call call(heap.changes());
    slab::held_block found;
    if (!heap.blocks().find_allocated(block, found)) {
        return nullptr;
    }
    const std::uint64_t usable = found.bytes();
    // A block that was asked for at an alignment of 8 may not be aligned as malloc does.
    if (reinterpret_cast<std::uintptr_t>(block) % alignment == 0 && fits(heap, usable, bytes)) {
        return block;
    }
    if (heap.can_resize_in_place() && heap.blocks().whole_pages().resize(found, bytes)) {
        return block;
    }
    const bool is_private = heap.files().location().is_scratch();
    const std::uint64_t wanted = is_private ? bytes_with_private_room(usable, bytes) : bytes_with_room(usable, bytes);
    void* moved = heap.allocate(wanted, alignment, found.block.type);
    if (moved == nullptr && wanted != bytes) {
        moved = heap.allocate(bytes, alignment, found.block.type);
    }
    if (moved == nullptr) {
        return nullptr;
    }
    const std::uint64_t kept = std::min(usable, bytes);
    carry(moved, block, kept, is_private);
    if (!heap.try_deallocate(block)) {
        base::failure refused = heap_operations::last_failure();
        if (is_private && heap.blocks().find_allocated(block, found)) {
            carry(block, moved, kept, is_private);  // its pages have gone
        }
        static_cast<void>(heap.try_deallocate(moved));
        slab::block_allocator::leave(std::move(refused));
        return nullptr;
    }
    return moved;
}

}  // namespace holdfast::heap
