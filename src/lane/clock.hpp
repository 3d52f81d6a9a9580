// A reading that happens after another one, by program order or through memory that two threads share, is larger
// (LANE-1): by an invariant time stamp counter, or else a counter in memory. The clock continues above the largest
// recorded time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/units.hpp"

namespace holdfast::lane {

/// The counter runs at one rate and in step on all cores.
[[nodiscard]] bool has_invariant_counter() noexcept;

/// Thread-safe, except start().
class record_clock {
public:
    enum class source : std::uint8_t { processor, memory };

    record_clock() noexcept : source_(has_invariant_counter() ? source::processor : source::memory) {}
    explicit record_clock(source from) noexcept : source_(from) {}
    record_clock(const record_clock&) = delete;
    record_clock& operator=(const record_clock&) = delete;
    ~record_clock() = default;

    void start(std::uint64_t above) noexcept {
        count_.store(above, std::memory_order_relaxed);
        offset_ = source_ == source::processor ? above - processor_count() : 0;
    }

    [[nodiscard]] std::uint64_t now() noexcept {
        if (source_ == source::processor) [[likely]] {
            return processor_count() + offset_;
        }
        return count_.fetch_add(1, std::memory_order_seq_cst) + 1;
    }
    [[nodiscard]] source used() const noexcept { return source_; }

private:
    [[nodiscard]] static std::uint64_t processor_count() noexcept {
#if defined(__x86_64__)
        unsigned processor = 0;
        return __builtin_ia32_rdtscp(&processor);  // the header of __rdtscp() has 48,000 lines
#else
        return 0;
#endif
    }

    source source_;
    std::uint64_t offset_ = 0;
    alignas(base::cache_line_size) std::atomic<std::uint64_t> count_{0};
};

/// The processor's counter costs a third of a clock in nanoseconds. Thread-safe.
class span_counter {
public:
    explicit span_counter(record_clock::source from) noexcept : source_(from) {}

    [[nodiscard]] std::uint64_t now() const noexcept {
#if defined(__x86_64__)
        if (source_ == record_clock::source::processor) [[likely]] {
            return __builtin_ia32_rdtsc();
        }
#endif
        return steady_nanoseconds();
    }
    [[nodiscard]] std::uint64_t nanoseconds(std::uint64_t ticks) const noexcept {
        const std::uint64_t passed = now() - first_;
        if (source_ != record_clock::source::processor || passed == 0) {
            return ticks;
        }
        return static_cast<std::uint64_t>(static_cast<double>(ticks) *
                                          static_cast<double>(steady_nanoseconds() - first_nanoseconds_) /
                                          static_cast<double>(passed));
    }

private:
    [[nodiscard]] static std::uint64_t steady_nanoseconds() noexcept {
        return static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
                .count());
    }

    record_clock::source source_;
    std::uint64_t first_ = now();
    std::uint64_t first_nanoseconds_ = steady_nanoseconds();
};

}  // namespace holdfast::lane
