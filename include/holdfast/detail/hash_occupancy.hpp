// How full a hash table is, and how many buckets it should have.
//
// Invariants: the maximal load factor is positive and at most 2^20; the limit is the number of buckets times that
// factor, rounded down. The size may exceed a lowered limit; the next insertion then grows the table.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <utility>

namespace holdfast::detail {

class hash_occupancy {
public:
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] float max_factor() const noexcept { return max_factor_; }
    [[nodiscard]] bool is_full() const noexcept { return size_ >= limit_; }
    [[nodiscard]] bool fits(std::size_t elements) const noexcept { return elements <= limit_; }
    [[nodiscard]] float factor(std::size_t buckets) const noexcept {
        return buckets == 0 ? 0.0F : static_cast<float>(size_) / static_cast<float>(buckets);
    }

    /// Not yet rounded to a power of two.
    [[nodiscard]] std::size_t buckets_for(std::size_t elements) const noexcept {
        const double wanted = std::ceil(static_cast<double>(elements) / static_cast<double>(max_factor_));
        return wanted < static_cast<double>(too_many) ? static_cast<std::size_t>(wanted) : too_many;
    }
    /// Of a table that is asked for `buckets`: enough for its elements; 0 where it needs none.
    [[nodiscard]] std::size_t rehashed(std::size_t buckets) const noexcept {
        const std::size_t wanted = std::min(std::max(buckets, buckets_for(size_)), too_many);
        return wanted == 0 ? 0 : std::bit_ceil(std::max(wanted, min_buckets));
    }
    [[nodiscard]] std::size_t grown(std::size_t buckets) const noexcept {
        return std::bit_ceil(std::max({min_buckets, buckets_for(size_ + 1), buckets * 2}));
    }

    void set_max_factor(float factor, std::size_t buckets) noexcept {
        if (factor > 0) {
            max_factor_ = std::min(factor, 1048576.0F);
            set_buckets(buckets);
        }
    }
    void set_buckets(std::size_t buckets) noexcept {
        limit_ = static_cast<std::size_t>(static_cast<double>(max_factor_) * static_cast<double>(buckets));
    }
    void add_one() noexcept { ++size_; }
    void remove_one() noexcept { --size_; }
    void remove_all() noexcept { size_ = 0; }
    /// `other` keeps the maximal load factor alone.
    void take(hash_occupancy& other) noexcept {
        max_factor_ = other.max_factor_;
        size_ = std::exchange(other.size_, 0);
        limit_ = std::exchange(other.limit_, 0);
    }

private:
    static constexpr std::size_t min_buckets = 8;
    static constexpr std::size_t too_many = std::size_t{1} << 62U;  ///< more than any allocator has room for

    float max_factor_ = 1.0F;
    std::size_t size_ = 0;
    std::size_t limit_ = 0;  ///< of elements, without growing
};

}  // namespace holdfast::detail
