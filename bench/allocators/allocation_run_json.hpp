// A run as JSON, for a process of its own. Apart from the run itself, since backends need no JSON, whose header is
// large.
#pragma once

#include <nlohmann/json.hpp>

#include "allocators/allocation_run.hpp"

namespace bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(allocation_run, backend, workload, durability, domain, directory, threads, scale,
                                   latency_calls, seed, size, batch, destinations, objects, queue, slots,
                                   handover_steps, large_objects, large_slots, random_objects, dbms_objects,
                                   shbench_slots, latency_blocks, frag_phase_mib, frag_live_mib, rest_seconds, cold,
                                   bodies, relations, tiles, cfrac_number, keys, distribution)

}  // namespace bench
