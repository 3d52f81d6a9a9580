// Holdfast's heap for a run, and its counts.
#pragma once

#include <holdfast/manager.hpp>

#include "allocators/allocation_run.hpp"

namespace bench {

/// Throws holdfast::error at the open where the storage is not the domain that the run insists on.
[[nodiscard]] holdfast::open_options heap_options_of(const allocation_run& run);
[[nodiscard]] protocol_totals totals_of(const holdfast::manager& heap);

}  // namespace bench
