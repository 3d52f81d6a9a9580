// Claims of blocks that groups of `commit` and `collect` free: of several transactions that free one at once, one
// succeeds. In `atomic` the states of small blocks are the claims.
//
// Invariants:
//   HEAP-23: a group that frees a block has claimed it, and has found it allocated since.
//
// Thread safety: block_claims by any number of threads; a block_claim belongs to one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>

#include "base/thread_annotations.hpp"

namespace holdfast::heap {

class block_claims;

/// Given up when the object ends. Needs no memory, and stays where it is.
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
    /// False: another has the block. `own` claims nothing yet.
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
    /// Lets those who have claims go on.
    static void pause() noexcept {
        if (!base::give_others_a_turn()) {
            std::this_thread::yield();
        }
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
