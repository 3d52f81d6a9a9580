// The time of single calls, by the processor's time stamp counter, and its histogram.
#pragma once

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace bench {

/// Before a call. On x86-64 rdtscp: it waits until all instructions before it are done.
[[nodiscard]] inline std::uint64_t read_ticks() noexcept {
#if defined(__x86_64__)
    unsigned processor = 0;
    return __rdtscp(&processor);
#else
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// After a call. On x86-64 its mfence waits until all processors can see the stores of the call. After an sfence alone
/// the processor goes on while a record is still on its way: a durable call would look as fast as a volatile one.
[[nodiscard]] inline std::uint64_t read_ticks_after_stores() noexcept {
#if defined(__x86_64__)
    _mm_mfence();
#endif
    return read_ticks();
}

/// Measured against the steady clock, for 20 ms.
[[nodiscard]] inline double nanoseconds_a_tick() {
    using clock = std::chrono::steady_clock;
    const auto start = clock::now();
    const std::uint64_t first = read_ticks();
    while (clock::now() - start < std::chrono::milliseconds(20)) {
    }
    const std::uint64_t last = read_ticks();
    return std::chrono::duration<double, std::nano>(clock::now() - start).count() / static_cast<double>(last - first);
}

/// Log-linear, as HdrHistogram: each power of two in 64 parts, so a quantile is right to 1.6 %; the maximum is exact.
class tick_histogram {
public:
    void add(std::uint64_t ticks) noexcept {
        ++counts_[index_of(ticks)];
        ++count_;
        greatest_ = std::max(greatest_, ticks);
    }
    void merge(const tick_histogram& other) noexcept {
        for (std::size_t i = 0; i < counts_.size(); ++i) {
            counts_[i] += other.counts_[i];
        }
        count_ += other.count_;
        greatest_ = std::max(greatest_, other.greatest_);
    }
    /// The middle of the quantile's part; 0 where nothing was added.
    [[nodiscard]] double quantile(double fraction) const noexcept {
        const auto wanted = static_cast<std::uint64_t>(static_cast<double>(count_) * fraction);
        std::uint64_t passed = 0;
        for (std::size_t i = 0; i < counts_.size(); ++i) {
            passed += counts_[i];
            if (passed > wanted || (passed == count_ && count_ != 0)) {
                return std::min(middle_of(i), static_cast<double>(greatest_));
            }
        }
        return 0;
    }
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    [[nodiscard]] std::uint64_t greatest() const noexcept { return greatest_; }

private:
    static constexpr unsigned part_bits = 6;
    static constexpr std::uint64_t parts = std::uint64_t{1} << part_bits;

    /// Below `parts` each value is itself; above, the power of two and the bits after the first.
    [[nodiscard]] static std::size_t index_of(std::uint64_t ticks) noexcept {
        if (ticks < parts) {
            return static_cast<std::size_t>(ticks);
        }
        const auto shift = static_cast<unsigned>(std::bit_width(ticks)) - 1 - part_bits;
        return static_cast<std::size_t>((std::uint64_t{shift} << part_bits) + (ticks >> shift));
    }
    [[nodiscard]] static double middle_of(std::size_t index) noexcept {
        if (index < 2 * parts) {
            return static_cast<double>(index);
        }
        const auto shift = static_cast<unsigned>(index >> part_bits) - 1;
        const std::uint64_t first = (parts + (index & (parts - 1))) << shift;
        return static_cast<double>(first) + static_cast<double>(std::uint64_t{1} << shift) / 2;
    }

    std::array<std::uint64_t, (65 - part_bits) * parts> counts_{};
    std::uint64_t count_ = 0;
    std::uint64_t greatest_ = 0;
};

}  // namespace bench
