// Why a thread's last failed call on any heap failed. Never throws: without memory, the code alone is left.
#pragma once

#include <exception>

#include "base/result.hpp"
#include "extent/extent.hpp"
#include "slab/calls/thread_cache.hpp"

namespace holdfast::slab {

template <class Make>
void leave_failure(base::failure_code code_at_least, Make make) noexcept {
    base::failure* const last = this_thread_failure();
    if (last == nullptr) {
        return;
    }
    try {
        *last = base::failure_to_read(code_at_least, make);
    } catch (const std::exception&) {
        *last = base::failure{};
        last->code = code_at_least;
    }
}
void leave(base::failure&& what) noexcept;
/// The interrupted call may hold a lock that this one would wait for.
void leave_interruption() noexcept;
/// As extent::admit(). False: the failure is left.
[[nodiscard]] bool admit(extent::extent_allocator& extents, base::pages more) noexcept;
/// Needs no allocation.
[[nodiscard]] base::failure out_of_memory() noexcept;
[[nodiscard]] const base::failure& last_failure() noexcept;

}  // namespace holdfast::slab
