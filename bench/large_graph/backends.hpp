// Where the graph that is larger than memory lies. Each backend inserts edges until all are there or its time is over.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "support/samples.hpp"

namespace bench {

/// In memory that the measuring process shares: what a killed process had done is known.
struct large_graph_progress {
    std::uint64_t edges = 0;
    std::uint64_t checksum = 0;
    std::uint64_t commits = 0;
    double insert_ms = 0;   ///< with commits between
    double durable_ms = 0;  ///< then, until the graph survives a loss of power; 0 where it never does
    std::uint64_t charged_bytes = 0;
};

struct large_graph_workload {
    unsigned scale = 16;
    std::uint64_t edges = 0;
    std::uint64_t seed = 0;
    double seconds = 60;              ///< for insertions
    std::uint64_t file_bytes = 0;     ///< of backends that cannot grow
    std::filesystem::path directory;  ///< empty, for this run alone
};

using large_graph_run = void (*)(const large_graph_workload&, large_graph_progress&);
struct large_graph_backend {
    const char* name;
    large_graph_run run;
};
[[nodiscard]] std::span<const large_graph_backend> large_graph_backends();

}  // namespace bench
