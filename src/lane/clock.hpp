// The heap's clock: orders the records of all lanes.
//
// If one reading happens before another (LANE-1: by program order, or through memory that two threads
// share), it is the smaller one. The counter of the processor, read by an instruction that waits for all loads before
// it, gives that where the processor and the kernel vouch for it; elsewhere a counter in memory does.
//
// The clock is virtual: it goes on above the largest time that a heap has ever recorded, so a reboot needs no reset.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "base/units.hpp"

namespace holdfast::lane {

/// Whether the processor's time stamp counter runs at one rate, always, in step on all cores.
[[nodiscard]] bool has_invariant_counter() noexcept;

/// Thread-safe, but for start().
class record_clock {
public:
    enum class source : std::uint8_t { processor, memory };

    record_clock() noexcept : source_(has_invariant_counter() ? source::processor : source::memory) {}
    explicit record_clock(source from) noexcept : source_(from) {}
    record_clock(const record_clock&) = delete;
    record_clock& operator=(const record_clock&) = delete;
    ~record_clock() = default;

    /// All readings from now on are larger than `above`.
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
    /// Not before all earlier loads of this thread have their values.
    [[nodiscard]] static std::uint64_t processor_count() noexcept {
#if defined(__x86_64__)
        unsigned processor = 0;
        return __rdtscp(&processor);
#else
        return 0;
#endif
    }

    source source_;
    std::uint64_t offset_ = 0;
    alignas(base::cache_line_size) std::atomic<std::uint64_t> count_{0};
};

}  // namespace holdfast::lane
