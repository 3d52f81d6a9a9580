// An announcement may wait in its core's store buffer while the core already reads the clock. So each call executes a
// full fence, or the rare checkpoint makes all other cores execute one by membarrier(2), in about a quarter of a
// microsecond.
#pragma once

#include <atomic>
#include <cstdint>

namespace holdfast::lane {

/// Thread-safe.
class announcement_barrier {
public:
    announcement_barrier() noexcept;
    /// `by_kernel` false: each announcement is a full fence.
    explicit announcement_barrier(bool by_kernel) noexcept : by_kernel_(by_kernel) {}

    /// A thread that calls see_announcements() after this thread's next reading of the clock sees the value.
    void announce(std::atomic<std::uint64_t>& place, std::uint64_t value) const noexcept {
        if (by_kernel_) [[likely]] {
            place.store(value, std::memory_order_relaxed);
            std::atomic_signal_fence(std::memory_order_seq_cst);
        } else {
            place.exchange(value, std::memory_order_seq_cst);
        }
    }
    void see_announcements() const noexcept;
    [[nodiscard]] bool by_kernel() const noexcept { return by_kernel_; }

private:
    bool by_kernel_;
};

}  // namespace holdfast::lane
