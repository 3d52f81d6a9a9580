// Claims of blocks that groups of `commit` and `collect` free: of several transactions that free one at once, one
// succeeds. In `atomic` the states of small blocks are the claims.
//
// Invariants:
//   HEAP-23: a group that frees a block has claimed it, and has found it allocated since.
//
// Thread safety: block_claims by any number of threads; a block_claim belongs to one.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.hpp"

namespace holdfast::heap {

class block_claims;
class block_claim;

/// Claims by the offset of their block.
class claim_table {
public:
    /// A power of two of buckets, two at least, all null.
    explicit claim_table(std::span<block_claim*> buckets) noexcept
        : buckets_(buckets), shift_(64U - static_cast<unsigned>(std::countr_zero(buckets.size()))) {}
    claim_table(const claim_table&) = delete;
    claim_table& operator=(const claim_table&) = delete;
    ~claim_table() = default;

private:
    friend class block_claims;
    [[nodiscard]] block_claim*& first(std::uint64_t offset) const noexcept {
        return buckets_[(offset * 0x9E3779B97F4A7C15U) >> shift_];
    }

    std::span<block_claim*> buckets_;
    unsigned shift_;
    claim_table* next_ = nullptr;
};

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
    claim_table* in_ = nullptr;
    std::uint64_t offset_ = 0;
    block_claim* next_ = nullptr;
};

class block_claims {
public:
    block_claims() = default;
    block_claims(const block_claims&) = delete;
    block_claims& operator=(const block_claims&) = delete;
    ~block_claims() = default;

    /// False: another has the block. `own` claims nothing yet. `in`: of large_claims; null: the common table.
    [[nodiscard]] bool try_claim(block_claim& own, std::uint64_t offset, claim_table* in = nullptr) noexcept {
        const base::scoped_lock lock(mutex_);
        for (const claim_table* table = &common_; table != nullptr; table = table->next_) {
            for (const block_claim* each = table->first(offset); each != nullptr; each = each->next_) {
                if (each->offset_ == offset) {
                    return false;
                }
            }
        }
        own.of_ = this;
        own.in_ = in == nullptr ? &common_ : in;
        own.offset_ = offset;
        own.next_ = std::exchange(own.in_->first(offset), &own);
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
    friend class large_claims;
    static constexpr std::size_t common_buckets = 64;

    void remove(const block_claim& own) noexcept {
        const base::scoped_lock lock(mutex_);
        block_claim** at = &own.in_->first(own.offset_);
        while (*at != &own) {
            at = &(*at)->next_;
        }
        *at = own.next_;
    }
    void add(claim_table& table) noexcept {
        const base::scoped_lock lock(mutex_);
        table.next_ = std::exchange(common_.next_, &table);
    }
    void remove(const claim_table& table) noexcept {
        const base::scoped_lock lock(mutex_);
        claim_table** at = &common_.next_;
        while (*at != &table) {
            at = &(*at)->next_;
        }
        *at = table.next_;
    }

    base::mutex mutex_;
    std::array<block_claim*, common_buckets> buckets_ HF_GUARDED_BY(mutex_){};
    claim_table common_ HF_GUARDED_BY(mutex_){buckets_};  ///< the first; those of large groups follow
};

/// A table for the claims of one group, which would fill the common one. They end before it does.
class large_claims {
public:
    /// Smaller groups have no need of it.
    static constexpr std::size_t least = 64;

    /// Throws std::bad_alloc.
    large_claims(block_claims& of, std::size_t claims)
        : of_(of), buckets_(std::bit_ceil(claims), nullptr), table_(buckets_) {
        of_.add(table_);
    }
    large_claims(const large_claims&) = delete;
    large_claims& operator=(const large_claims&) = delete;
    ~large_claims() { of_.remove(table_); }
    [[nodiscard]] claim_table* table() noexcept { return &table_; }

private:
    block_claims& of_;
    std::vector<block_claim*> buckets_;
    claim_table table_;
};

inline void block_claim::give_up() noexcept {
    if (of_ != nullptr) [[unlikely]] {
        std::exchange(of_, nullptr)->remove(*this);
    }
}

}  // namespace holdfast::heap
