// Why a thread's last failed call on any heap failed. A call that returns null or false leaves a failure here.
//
// - Each thread has one failure of its own; none while the thread ends.
// - To leave a failure never throws: where there is no memory for its text, its code alone is left.
#pragma once

#include <exception>

#include "base/failure.hpp"
#include "slab/calls/thread_cache.hpp"

namespace holdfast::slab {

/// Leaves the failure that `make` returns for last_failure(). Where there is no memory for its text, leaves its code
/// alone.
template <class Make>
void leave_failure(base::failure_code code_at_least, Make make) noexcept {
    base::failure* const last = this_thread_failure();
    if (last == nullptr) {
        return;
    }
    try {
        *last = make();
    } catch (const std::exception&) {
        *last = base::failure{};
        last->code = code_at_least;
    }
}
/// Leaves a failure for last_failure().
void leave(base::failure&& what) noexcept;
/// Leaves the failure for a call that interrupted another call of its thread, which may hold a lock that this one would
/// wait for.
void leave_interruption() noexcept;
/// A failure whose texts are short enough to need no allocation.
[[nodiscard]] base::failure out_of_memory() noexcept;
[[nodiscard]] const base::failure& last_failure() noexcept;

}  // namespace holdfast::slab
