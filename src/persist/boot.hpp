// What was not synced is gone in a later boot, unless the machine was shut down in order.
#pragma once

#include <cstdint>

namespace holdfast::persist {

/// From the kernel's random identity of this boot; 0: unknown. Thread-safe.
[[nodiscard]] std::uint64_t this_boot() noexcept;

}  // namespace holdfast::persist
