// Which boot of the machine this is: what was stored and not synced is gone in every later one, unless the machine was
// shut down in order.
#pragma once

#include <cstdint>

namespace holdfast::persist {

/// A number for this boot, from the kernel's random identity of it; 0 where the kernel does not tell. Thread-safe.
[[nodiscard]] std::uint64_t this_boot() noexcept;

}  // namespace holdfast::persist
