// Which boot of the machine this is: what was not synced is gone in later ones, unless the machine was shut down in
// order.
#pragma once

#include <cstdint>

namespace holdfast::persist {

/// From the kernel's random identity of this boot; 0 where the kernel does not tell. Thread-safe.
[[nodiscard]] std::uint64_t this_boot() noexcept;

}  // namespace holdfast::persist
