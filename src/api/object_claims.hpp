// The claims of objects that somebody has open (holdfast/detail/heap_watch.hpp), for the heap itself.
#pragma once

#include <holdfast/detail/heap_watch.hpp>

namespace holdfast::detail {

/// Somebody has an object of this heap open. Thread-safe.
[[nodiscard]] bool has_claimed_objects(const heap_watch& heap) noexcept;

}  // namespace holdfast::detail
