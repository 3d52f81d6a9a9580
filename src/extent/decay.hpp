// Free memory loses its space on disk along the smootherstep curve, in steps of 50 ms (jemalloc's decay, as in PMAlloc
// 2.2). What is used again meanwhile counts as decayed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/units.hpp"

namespace holdfast::extent {

/// x in 0..1
[[nodiscard]] constexpr double smootherstep(double x) noexcept { return x * x * x * (x * (x * 6 - 15) + 10); }

/// How many free pages may keep their space. Nanoseconds of a clock that does not run backward. Not thread-safe.
class decay_curve {
public:
    static constexpr std::uint64_t step_ns = 50'000'000;

    /// For `total_ns`; 0: free memory is given back at once.
    static constexpr std::uint64_t never = ~std::uint64_t{0};
    /// May throw std::bad_alloc.
    void start(std::uint64_t total_ns, std::uint64_t now_ns) {
        total_ns_ = total_ns;
        epoch_ns_ = now_ns;
        kept_ = 0;
        freed_.assign(total_ns == never ? 0 : static_cast<std::size_t>(std::min(total_ns / step_ns, most_steps)), 0);
        newest_ = 0;
    }
    [[nodiscard]] bool enabled() const noexcept { return total_ns_ != never; }
    [[nodiscard]] bool is_due(std::uint64_t now_ns) const noexcept {
        return enabled() && (freed_.empty() || now_ns >= epoch_ns_ + step_ns);
    }

    /// How many of the `backed` free pages may keep their space.
    [[nodiscard]] std::uint64_t limit(std::uint64_t now_ns, std::uint64_t backed) noexcept {
        if (!enabled()) {
            return backed;
        }
        if (freed_.empty()) {
            return 0;
        }
        if (now_ns < epoch_ns_ + step_ns) {
            return std::max(kept_, backed);
        }
        std::uint64_t steps = (now_ns - epoch_ns_) / step_ns;
        epoch_ns_ += steps * step_ns;
        steps = std::min<std::uint64_t>(steps, freed_.size());
        for (std::uint64_t i = 0; i < steps; ++i) {
            newest_ = newest_ + 1 == freed_.size() ? 0 : newest_ + 1;
            freed_[newest_] = 0;
        }
        freed_[newest_] = backed > kept_ ? backed - kept_ : 0;
        double allowed = 0;
        const auto all = static_cast<double>(freed_.size());
        for (std::size_t age = 0; age < freed_.size(); ++age) {
            const std::uint64_t pages = freed_[(newest_ + freed_.size() - age) % freed_.size()];
            if (pages != 0) {
                allowed += static_cast<double>(pages) * smootherstep((all - static_cast<double>(age)) / all);
            }
        }
        kept_ = std::min(backed, static_cast<std::uint64_t>(allowed));
        return kept_;
    }

private:
    static constexpr std::uint64_t most_steps = 72'000;  // an hour

    std::uint64_t total_ns_ = never;
    std::uint64_t epoch_ns_ = 0;
    std::uint64_t kept_ = 0;  ///< backed pages after the last step
    std::vector<std::uint64_t> freed_;
    std::size_t newest_ = 0;
};

/// The decay of an allocator's free extents, step by step. After step(), at most may_stay() free pages may keep their
/// space until the next step. The caller holds a lock, except for now() and at_once().
class extent_decay {
public:
    /// Monotonic nanoseconds.
    using clock_function = std::uint64_t (*)() noexcept;

    /// Comes before the first free. May throw std::bad_alloc.
    void start(std::uint64_t total_ns, clock_function clock) {
        clock_ = clock;
        at_once_ = total_ns == 0;
        curve_.start(total_ns, clock());
    }
    [[nodiscard]] std::uint64_t now() const noexcept { return clock_ == nullptr ? 0 : clock_(); }
    [[nodiscard]] bool at_once() const noexcept { return at_once_; }

    [[nodiscard]] bool enabled() const noexcept { return clock_ != nullptr && curve_.enabled(); }
    [[nodiscard]] bool is_due() const noexcept { return clock_ != nullptr && curve_.is_due(clock_()); }
    /// Ends a step if one is over; whether one was. `backed`: free pages that are no holes.
    [[nodiscard]] bool step(base::pages backed) noexcept {
        if (clock_ == nullptr) {
            return false;
        }
        const std::uint64_t now = clock_();
        if (!curve_.is_due(now)) {
            return false;
        }
        may_stay_ = {curve_.limit(now, backed.value)};
        return true;
    }
    [[nodiscard]] base::pages may_stay() const noexcept { return may_stay_; }
    /// For callers that take no steps. Only where enabled().
    [[nodiscard]] base::pages limit(base::pages backed) noexcept { return {curve_.limit(clock_(), backed.value)}; }

private:
    decay_curve curve_;
    base::pages may_stay_{};
    clock_function clock_ = nullptr;
    bool at_once_ = false;
};

}  // namespace holdfast::extent
