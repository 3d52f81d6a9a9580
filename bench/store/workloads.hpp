// What is measured of a store. Each function works in a new environment in `directory`, in the process that calls it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "store/library.hpp"

namespace bench {

struct store_sizes {
    std::uint64_t entries = 1'000'000;  ///< of the large store
    std::uint64_t synced = 2'000;       ///< transactions of one put that are synced
    std::uint64_t synced_in_batches = 200'000;
    std::uint64_t stuck = 100'000;  ///< entries that are overwritten ten times under a reader
    unsigned writers = 8;
    std::uint64_t seed = 0;
};

/// Results by name: those that end in _bytes are sizes, "checksum" is of what was read, all others are milliseconds.
using store_results = std::map<std::string, double>;

struct store_workload {
    const char* name;
    bool in_memory;  ///< its directory is on tmpfs
    std::function<store_results(const store_library&, bool is_lmdb, const std::filesystem::path&, const store_sizes&)>
        run;
};
[[nodiscard]] const std::vector<store_workload>& store_workloads();
/// Those of the thesis that put LMDB on persistent memory (Bhandari 2018, 4.8).
[[nodiscard]] const std::vector<store_workload>& thesis_workloads();

}  // namespace bench
