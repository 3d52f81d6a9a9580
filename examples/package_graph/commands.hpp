// The subcommands of package_graph. Each returns the exit status: 0, or 1 where something differs from what it must be;
// what prevents the work itself (no input, no heap, a full disk) is thrown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/manager.hpp>

#include "persistent_graph.hpp"
#include "sidecar.hpp"
#include "summary.hpp"

namespace package_graph {

struct common_arguments {
    std::string heap;
    std::vector<std::string> inputs;
    std::string base = "any";
};

struct ingest_arguments {
    std::uint64_t commit_every = 2000;  ///< stanzas
    bool verify = false;                ///< before going on with a heap that is there already
    bool progress = false;
};

int ingest(const common_arguments& common, const ingest_arguments& arguments);
int verify(const common_arguments& common);
int query(const common_arguments& common, const question& asked);

/// Prints what was found to be so or not, and returns `good`.
[[nodiscard]] bool report(bool good, std::string_view what);
/// Compares the commits in the heap with those in the sidecar: they must be the same, but that the heap may have one
/// more, which was begun. Prints what differs.
[[nodiscard]] bool commits_agree(const persistent_graph* graph, const testimony& outside);
/// Prints and checks that the heap is exactly at its last commit: against the sidecar, by walking the graph, and by
/// reading the same part of the text again into plain containers. `graph` may be null: then nothing may have been
/// committed.
[[nodiscard]] bool verify_last_commit(const holdfast::manager& heap, const persistent_graph* graph,
                                      const testimony& outside, std::string_view text);

}  // namespace package_graph
