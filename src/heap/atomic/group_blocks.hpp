// The blocks that a group frees, found before its records are written.
//
// Thread safety: none; an object belongs to one call.
#pragma once

#include <new>
#include <span>

#include <boost/container/small_vector.hpp>

#include "slab/slab.hpp"

namespace holdfast::heap {

class group_blocks {
public:
    /// False where a block is none, or where memory is short; block_allocator::last_failure() says which.
    [[nodiscard]] bool gather(std::span<void* const> freed, slab::block_allocator& blocks) noexcept {
        if (freed.size() > few) {
            try {
                freed_.reserve(freed.size());
            } catch (const std::bad_alloc&) {
                base::failure what;
                what.code = base::failure_code::out_of_memory;
                blocks.leave(std::move(what));
                return false;
            }
        }
        for (void* const each : freed) {
            if (!blocks.find_allocated(each, freed_.emplace_back())) {
                return false;
            }
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
    [[nodiscard]] std::span<slab::held_block> freed() noexcept { return {freed_.data(), freed_.size()}; }

private:
    /// Most transactions have fewer, and need no memory for them.
    static constexpr std::size_t few = 4;
    boost::container::small_vector<slab::held_block, few> freed_;
};

}  // namespace holdfast::heap
