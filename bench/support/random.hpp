// Random numbers that are the same on every machine and with every standard library: a benchmark's workload is a
// function of its seed.
#pragma once

#include <cstdint>

namespace bench {

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words. Also the checksum's mixing.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t word) noexcept {
    word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
    word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
    return word ^ (word >> 31U);
}

/// splitmix64.
class random_source {
public:
    explicit constexpr random_source(std::uint64_t seed) noexcept : state_(seed) {}
    [[nodiscard]] constexpr std::uint64_t next() noexcept { return mix(state_ += 0x9e3779b97f4a7c15U); }
    /// In [0, limit); limit is in [1, 2^32). By multiplication: the bias is below limit / 2^32.
    [[nodiscard]] constexpr std::uint64_t below(std::uint64_t limit) noexcept {
        return ((next() >> 32U) * limit) >> 32U;
    }
    /// In [low, high], high - low < 2^32 - 1.
    [[nodiscard]] constexpr std::uint64_t between(std::uint64_t low, std::uint64_t high) noexcept {
        return low + below(high - low + 1);
    }

private:
    std::uint64_t state_;
};

}  // namespace bench
