#include "slab/calls/last_failure.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace holdfast::slab {

using base::failure;
using base::failure_code;

failure out_of_memory() noexcept {
    failure what;
    what.code = failure_code::out_of_memory;
    what.field = "memory";
    what.found = "none left";
    what.expected = "free memory";
    return what;
}

void leave_interruption() noexcept {
    leave_failure(failure_code::unsupported, [] {
        return failure{failure_code::unsupported,
                       {},
                       "a call",
                       "one of a signal handler that has interrupted the allocator",
                       "one of a thread that is not in another",
                       "handlers of signals do not allocate or free",
                       0};
    });
}

bool admit(extent::extent_allocator& extents, base::pages more) noexcept {
    try {
        auto admitted = extent::admit(extents, more);
        if (!admitted) {
            leave(std::move(admitted).error());
        }
        return admitted.ok();
    } catch (const std::bad_alloc&) {
        leave_failure(failure_code::out_of_memory, out_of_memory);
        return false;
    }
}

void leave(failure&& what) noexcept {
    if (failure* const last = this_thread_failure()) {
        *last = std::move(what);
    }
}

const failure& last_failure() noexcept {
    // Never destroyed: to register a destructor takes a lock of the C library.
    alignas(failure) static std::array<std::byte, sizeof(failure)> place;
    static const failure* const none = std::construct_at(reinterpret_cast<failure*>(place.data()));
    const failure* const last = this_thread_failure();
    return last == nullptr ? *none : *last;
}

}  // namespace holdfast::slab
