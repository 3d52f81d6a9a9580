// The maps of bench/indexes as workloads of holdfast-bench: index-insert, -update, -find, -scan, -remove and -open, and
// the mixes of YCSB, ycsb-a to ycsb-f.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "allocators/allocation_run.hpp"

namespace indexes {

/// Why the backend cannot run it on any machine; else empty.
[[nodiscard]] std::string reason_against(const bench::allocation_run& run);

/// Runs one in this process, against which there is no reason. Throws bench::backend_unavailable.
[[nodiscard]] nlohmann::ordered_json run_workload(const bench::allocation_run& run);

}  // namespace indexes
