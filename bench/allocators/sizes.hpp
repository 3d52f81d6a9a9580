// How large the blocks of a workload are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "support/random.hpp"

namespace bench {

struct size_range {
    std::size_t least = 0;
    std::size_t greatest = 0;
    [[nodiscard]] constexpr std::size_t middle() const noexcept { return least + (greatest - least) / 2; }
};

inline constexpr size_range small_sizes{64, 256};                  ///< larson-small
inline constexpr size_range large_sizes{32U << 10U, 512U << 10U};  ///< larson-large, dbmstest
inline constexpr size_range medium_sizes{1U << 10U, 4U << 10U};    ///< larson-medium
inline constexpr size_range big_sizes{64U << 10U, 256U << 10U};    ///< larson-256k
inline constexpr size_range shbench_sizes{1, 1'000};
inline constexpr std::size_t threadtest_large_size = 512U << 10U;

/// Shbench: 1 to 1,000 B, half of them below 32, 152 B on the average. A power of two up to 512 is drawn, then a size
/// from it to the next.
[[nodiscard]] constexpr std::size_t draw_shbench_size(random_source& random) noexcept {
    constexpr unsigned octaves = 10;
    const std::uint64_t least = std::uint64_t{1} << random.below(octaves);
    const std::uint64_t greatest = least * 2 - 1 < shbench_sizes.greatest ? least * 2 - 1 : shbench_sizes.greatest;
    return static_cast<std::size_t>(random.between(least, greatest));
}

/// Sizes of PAllocator's figure 12, from 64 B to 128 KiB: even, or of the binomial distribution with a chance, by the
/// normal one that is like it: 1,374 B for 0.01, 91,770 B for 0.7, with spreads of 37 and 166 B.
class random_sizes {
public:
    /// Chance: 0 stands for even.
    explicit constexpr random_sizes(double chance) noexcept : is_even_(chance == 0) {
        constexpr auto width = static_cast<double>(greatest - least);
        const auto middle = least + static_cast<std::size_t>(chance * width);
        while (static_cast<double>(spread_ * spread_) < chance * (1 - chance) * width) {
            ++spread_;
        }
        const std::size_t half = spread_ * normal_draws / 2;
        sizes_ = is_even_ ? size_range{least, greatest} : size_range{middle - half, middle + half};
    }
    /// Nothing that is drawn lies outside.
    [[nodiscard]] constexpr size_range sizes() const noexcept { return sizes_; }
    [[nodiscard]] constexpr std::size_t draw(random_source& random) const noexcept {
        if (is_even_) {
            return static_cast<std::size_t>(random.between(least, greatest));
        }
        std::uint64_t drawn = 0;  // twelve even numbers add up to a nearly normal one, whose spread is that of one
        for (std::size_t i = 0; i < normal_draws; ++i) {
            drawn += random.below(scale * spread_ + 1);
        }
        return sizes_.least + static_cast<std::size_t>(drawn / scale);
    }

private:
    static constexpr std::size_t least = 64;
    static constexpr std::size_t greatest = 128U << 10U;
    static constexpr std::size_t normal_draws = 12;
    static constexpr std::size_t scale = 1'000;

    bool is_even_;
    std::size_t spread_ = 0;  ///< the standard deviation
    size_range sizes_;
};

/// DBMStest: 32 KiB x (1 + k), k a Poisson variable with the mean 7.5, cut off beyond 15: 32 to 512 KiB, 271 KiB on the
/// average. (PMAlloc only says "a Poisson distribution between 32 KB and 512 KB".)
class poisson_sizes {
public:
    constexpr poisson_sizes() noexcept {
        std::array<double, steps> weights{};
        double weight = 1;
        double sum = 0;
        for (std::size_t k = 0; k < steps; ++k) {
            weight = k == 0 ? 1 : weight * mean / static_cast<double>(k);
            weights[k] = weight;
            sum += weight;
        }
        double below = 0;
        for (std::size_t k = 0; k < steps; ++k) {
            below += weights[k] / sum;
            bounds_[k] = static_cast<std::uint64_t>(below * 0x1p32);
        }
        bounds_[steps - 1] = std::uint64_t{1} << 32U;
    }
    [[nodiscard]] constexpr std::size_t draw(random_source& random) const noexcept {
        const std::uint64_t drawn = random.next() >> 32U;
        std::size_t k = 0;
        while (drawn >= bounds_[k]) {
            ++k;
        }
        return large_sizes.least * (k + 1);
    }

private:
    static constexpr double mean = 7.5;
    static constexpr std::size_t steps = large_sizes.greatest / large_sizes.least;

    std::array<std::uint64_t, steps> bounds_{};
};

}  // namespace bench
