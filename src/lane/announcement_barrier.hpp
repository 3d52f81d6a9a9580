// Who takes a checkpoint must see every call that announced itself before. A store waits in a buffer of its core while
// the same core goes on to read the clock; so either each call pays for a full fence, or the rare reader makes all
// other cores run one: membarrier(2), about a quarter of a microsecond.
#pragma once

#include <atomic>
#include <cstdint>

namespace holdfast::lane {

/// Thread-safe.
class announcement_barrier {
public:
    announcement_barrier() noexcept;
    /// `by_kernel`: false makes every announcement a full fence, as where the kernel refuses.
    explicit announcement_barrier(bool by_kernel) noexcept : by_kernel_(by_kernel) {}

    /// Visible to whoever calls see_announcements() after this thread's next reading of the clock.
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
