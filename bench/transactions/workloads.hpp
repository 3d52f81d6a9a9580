// The transactions of bench/transactions as workloads of holdfast-bench: tx-word, tx-objects, and of the maps of
// examples/maps tx-hashmap-insert, -remove and -look-up, and the same of tx-btree and tx-rbtree.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "allocators/allocation_run.hpp"

namespace transactions {

/// In this process, by one thread, in the domain `emulated` or `disk`. Throws bench::backend_unavailable for backends
/// without transactions.
[[nodiscard]] nlohmann::ordered_json run_workload(const bench::allocation_run& run);

}  // namespace transactions
