// The maps of bench/indexes as workloads of holdfast-bench: index-insert, -update, -find, -scan, -remove and -open, and
// the mixes of YCSB, ycsb-a to ycsb-f.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "allocators/allocation_run.hpp"

namespace indexes {

/// Runs one in this process. Throws bench::backend_unavailable for what has no such map, and where the map has no such
/// call.
[[nodiscard]] nlohmann::ordered_json run_workload(const bench::allocation_run& run);

}  // namespace indexes
