// Fixed size; cleared in constant time.
#pragma once

#include <cstdint>
#include <memory>

#include "base/units.hpp"

namespace holdfast::lane {

/// Not thread-safe.
class line_set {
public:
    static constexpr unsigned index_bits = 15;

    line_set() : entries_(std::make_unique<entry[]>(std::size_t{1} << index_bits)) {}

    void clear() noexcept {
        ++round_;
        count_ = 0;
    }
    /// A set that is three quarters full is cleared, so a line may be new twice.
    [[nodiscard]] bool insert(const void* address) noexcept {
        if (count_ >= (std::size_t{1} << index_bits) / 4 * 3) {
            clear();
        }
        const std::uint64_t line = reinterpret_cast<std::uintptr_t>(address) / base::cache_line_size;
        constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15;
        constexpr std::uint64_t mask = (std::uint64_t{1} << index_bits) - 1;
        for (std::uint64_t i = (line * golden_ratio) >> (64 - index_bits);; i = (i + 1) & mask) {
            entry& here = entries_[i];
            if (here.round != round_) {
                here = {line, round_};
                ++count_;
                return true;
            }
            if (here.line == line) {
                return false;
            }
        }
    }

private:
    struct entry {
        std::uint64_t line = 0;
        std::uint64_t round = 0;
    };
    std::unique_ptr<entry[]> entries_;
    std::uint64_t round_ = 1;
    std::size_t count_ = 0;
};

}  // namespace holdfast::lane
