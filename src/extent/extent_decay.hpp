#pragma once

#include <cstdint>

#include "base/units.hpp"
#include "extent/decay_curve.hpp"

namespace holdfast::extent {

/// After step(), at most may_stay() free pages may keep their space until the next step. The caller holds a lock,
/// except for now() and at_once().
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
