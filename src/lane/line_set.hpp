// Fixed size, a power of two; cleared in constant time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/units.hpp"

namespace holdfast::lane {

/// Not thread-safe.
class line_set {
public:
    static constexpr unsigned default_bits = 15;

    explicit line_set(unsigned index_bits = default_bits)
        : index_bits_(index_bits), entries_(std::make_unique<std::uint64_t[]>(std::size_t{1} << index_bits)) {}

    void clear() noexcept {
        count_ = 0;
        if (++round_ == 1U << (64 - line_bits)) {
            round_ = 1;
            std::fill_n(entries_.get(), std::size_t{1} << index_bits_, 0);
        }
    }
    /// A set that is three quarters full is cleared, so a line may be new twice. One beyond 2^48 is always new.
    [[nodiscard]] bool insert(const void* address) noexcept {
        if (count_ >= (std::size_t{1} << index_bits_) / 4 * 3) {
            clear();
        }
        const std::uint64_t line = reinterpret_cast<std::uintptr_t>(address) / base::cache_line_size;
        constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15;
        if (line >> line_bits != 0) [[unlikely]] {
            return true;
        }
        const std::uint64_t mask = (std::uint64_t{1} << index_bits_) - 1;
        const std::uint64_t wanted = round_ << line_bits | line;
        for (std::uint64_t i = (line * golden_ratio) >> (64 - index_bits_);; i = (i + 1) & mask) {
            std::uint64_t& here = entries_[i];
            if (here == wanted) {
                return false;
            }
            if (here >> line_bits != round_) {
                here = wanted;
                ++count_;
                return true;
            }
        }
    }

private:
    /// Of an entry; the others are the round that it is of.
    static constexpr unsigned line_bits = 42;

    unsigned index_bits_;
    std::unique_ptr<std::uint64_t[]> entries_;
    std::uint64_t round_ = 1;
    std::size_t count_ = 0;
};

}  // namespace holdfast::lane
