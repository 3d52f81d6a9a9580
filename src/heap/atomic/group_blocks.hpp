// The blocks of a group, found before its records are written: reserved ones that become allocated, and allocated ones
// that are freed.
//
// Thread safety: none; an object belongs to one call.
#pragma once

#include <new>
#include <span>

#include <boost/container/small_vector.hpp>

#include "heap/destination_operations.hpp"
#include "heap/reservations.hpp"
#include "segment/space.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

class group_blocks {
public:
    /// Takes the reservations and finds what is freed. False, and the reservations stay, where a block is none, or
    /// where memory is short; block_allocator::last_failure() says which.
    [[nodiscard]] bool gather(const group_request& changes, slab::block_allocator& blocks, reservations& reserved,
                              const segment::space_view& space) noexcept {
        try {
            freed_.reserve(changes.freed.size());
            allocated_.reserve(changes.reserved.size());
        } catch (const std::bad_alloc&) {
            base::failure what;
            what.code = base::failure_code::out_of_memory;
            blocks.leave(std::move(what));
            return false;
        }
        for (void* const each : changes.freed) {
            slab::held_block found;
            if (!blocks.find_allocated(each, found)) {
                return false;
            }
            freed_.push_back(found);
        }
        for (void* const each : changes.reserved) {
            auto held = reserved.remove(space.offset(each).value);
            if (!held) {
                blocks.leave(refused_reservation(each));
                give_back(reserved);
                return false;
            }
            allocated_.push_back(*held);
        }
        return true;
    }
    /// Of a group that was refused: where one of these blocks is not allocated any more, that is why.
    static void leave_refusal(std::span<void* const> freed, slab::block_allocator& blocks) noexcept {
        for (const void* each : freed) {
            slab::held_block found;
            if (!blocks.find_allocated(each, found)) {
                return;
            }
        }
    }
    /// The reservations are as before.
    void give_back(reservations& reserved) noexcept {
        for (const slab::held_block& each : allocated_) {
            static_cast<void>(reserved.add(each));  // without memory the block is lost until the next open
        }
        allocated_.clear();
    }
    [[nodiscard]] std::span<const slab::held_block> allocated() const noexcept {
        return {allocated_.data(), allocated_.size()};
    }
    [[nodiscard]] std::span<slab::held_block> freed() noexcept { return {freed_.data(), freed_.size()}; }

private:
    /// Most transactions have fewer, and need no memory for them.
    static constexpr std::size_t few = 4;
    boost::container::small_vector<slab::held_block, few> allocated_;
    boost::container::small_vector<slab::held_block, few> freed_;
};

}  // namespace holdfast::heap
