// The blocks that a group frees, found before anything changes and, with claims, claimed until the object ends.
#pragma once

#include <array>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include <boost/container/small_vector.hpp>

#include "heap/operations/block_claims.hpp"
#include "heap/operations/destination_operations.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

class group_blocks {
public:
    /// `claims`: null where the states are claims. False where a block is none, or memory is short;
    /// block_allocator::last_failure() says which.
    [[nodiscard]] bool gather(std::span<void* const> freed, slab::block_allocator& blocks,
                              block_claims* claims = nullptr) noexcept {
        if (freed.size() > few) {
            try {
                freed_.reserve(freed.size());
                if (claims != nullptr) {
                    more_ = std::make_unique<block_claim[]>(freed.size() - few);
                    if (freed.size() >= large_claims::least) {
                        large_.emplace(*claims, freed.size());
                    }
                }
            } catch (const std::bad_alloc&) {
                base::failure what;
                what.code = base::failure_code::out_of_memory;
                blocks.leave(std::move(what));
                return false;
            }
        }
        while (freed_.size() < freed.size()) {
            void* const block = freed[freed_.size()];
            slab::held_block found;
            if (!blocks.find_allocated(block, found)) {
                return false;
            }
            if (claims == nullptr) {
                freed_.push_back(found);
                continue;
            }
            if (claims->try_claim(claim_of(freed_.size()), found.offset, large_ ? large_->table() : nullptr)) {
                if (!blocks.find_allocated(block, found)) {
                    return false;
                }
                freed_.push_back(found);
                continue;
            }
            if (is_claimed_here(found.offset)) {
                blocks.leave(refused_free(block));
                return false;
            }
            // Another thread, which may wait for a block of this group, frees it: none stays claimed.
            give_up();
            freed_.clear();
            block_claims::pause();
        }
        return true;
    }
    /// Where a group was refused because one is not allocated any more.
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
    /// Most transactions free fewer.
    static constexpr std::size_t few = 4;

    void give_up() noexcept {
        for (std::size_t i = 0; i < freed_.size(); ++i) {
            claim_of(i).give_up();
        }
    }
    [[nodiscard]] block_claim& claim_of(std::size_t i) noexcept { return i < few ? first_[i] : more_[i - few]; }
    [[nodiscard]] bool is_claimed_here(std::uint64_t offset) noexcept {
        for (std::size_t i = 0; i < freed_.size(); ++i) {
            if (claim_of(i).is_of(offset)) {
                return true;
            }
        }
        return false;
    }

    boost::container::small_vector<slab::held_block, few> freed_;
    std::optional<large_claims> large_;  ///< goes after the claims
    std::array<block_claim, few> first_;
    std::unique_ptr<block_claim[]> more_;
};

}  // namespace holdfast::heap
