// Blocks that are about to be freed: of several threads that free one at once, one succeeds, and the others find it
// freed before they write a record.
//
// Invariants:
//   HEAP-23: a block that is not small is freed by who has claimed it, and has found it allocated since.
//
// Thread safety: block_claims by any number of threads; a block_claim belongs to one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>

#include "base/hot.hpp"
#include "base/thread_annotations.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

class block_claims;

/// A claim, given up when the object ends. It needs no memory but its own, and stays where it is.
class block_claim {
public:
    block_claim() = default;
    block_claim(const block_claim&) = delete;
    block_claim& operator=(const block_claim&) = delete;
    ~block_claim() { give_up(); }
    inline void give_up() noexcept;
    [[nodiscard]] bool is_of(std::uint64_t offset) const noexcept { return of_ != nullptr && offset_ == offset; }

private:
    friend class block_claims;
    block_claims* of_ = nullptr;  ///< null: it claims nothing
    std::uint64_t offset_ = 0;
    block_claim* next_ = nullptr;
};

class block_claims {
public:
    /// False: the block is claimed. `own` claims nothing yet.
    [[nodiscard]] bool try_claim(block_claim& own, std::uint64_t offset) noexcept {
        const base::scoped_lock lock(mutex_);
        block_claim*& first = claims_[bucket(offset)];
        for (const block_claim* each = first; each != nullptr; each = each->next_) {
            if (each->offset_ == offset) {
                return false;
            }
        }
        own.of_ = this;
        own.offset_ = offset;
        own.next_ = std::exchange(first, &own);
        return true;
    }
    /// Waits until the block is not claimed by another one. The caller has no other claim.
    void claim(block_claim& own, std::uint64_t offset) noexcept {
        while (!try_claim(own, offset)) {
            pause();
        }
    }
    /// Lets those who have claims go on.
    static void pause() noexcept {
        if (!base::give_others_a_turn()) {
            std::this_thread::yield();
        }
    }
    /// A block that begins there, claimed unless it is small: then its state is. False, and
    /// block_allocator::last_failure() says why, where none does.
    [[nodiscard]] HF_HOT bool find(block_claim& own, const void* block, slab::held_block& found,
                                   slab::block_allocator& blocks) noexcept {
        if (!blocks.find_allocated(block, found)) [[unlikely]] {
            return false;
        }
        if (!needs_claim(found)) [[likely]] {
            return true;
        }
        claim(own, found.offset);
        return blocks.find_allocated(block, found);  // it may be another one by now, or none
    }
    /// find() that does not wait: false also where the block is claimed.
    [[nodiscard]] bool try_find(block_claim& own, const void* block, slab::held_block& found,
                                slab::block_allocator& blocks) noexcept {
        return blocks.find_allocated(block, found) &&
               (!needs_claim(found) || (try_claim(own, found.offset) && blocks.find_allocated(block, found)));
    }
    [[nodiscard]] static bool needs_claim(const slab::held_block& found) noexcept {
        return !found.is_small() && !found.is_by_node();
    }

private:
    friend class block_claim;
    static constexpr std::size_t buckets = 64;

    [[nodiscard]] static std::size_t bucket(std::uint64_t offset) noexcept {
        return (offset * 0x9E3779B97F4A7C15U) >> 58U;
    }
    void remove(const block_claim& own) noexcept {
        const base::scoped_lock lock(mutex_);
        block_claim** at = &claims_[bucket(own.offset_)];
        while (*at != &own) {
            at = &(*at)->next_;
        }
        *at = own.next_;
    }

    base::mutex mutex_;
    std::array<block_claim*, buckets> claims_ HF_GUARDED_BY(mutex_){};
};

inline void block_claim::give_up() noexcept {
    if (of_ != nullptr) [[unlikely]] {
        std::exchange(of_, nullptr)->remove(*this);
    }
}

}  // namespace holdfast::heap
