// The subcommands of package_graph. Each returns the exit status: 0, or 1 where the heap is not what it must be. What
// prevents the work (no input, no heap, a full disk) is thrown.
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
    bool verify = false;                ///< check an existing heap before continuing with it
    bool progress = false;
};

int ingest(const common_arguments& common, const ingest_arguments& arguments);
int verify(const common_arguments& common);
int query(const common_arguments& common, const question& asked);

/// Prints the result of a check, and returns `good`.
[[nodiscard]] bool report(bool good, std::string_view what);
/// Compares the commits in the heap with those in the sidecar. They must be the same, except that the heap may have one
/// more, which the sidecar says was begun. Prints differences.
[[nodiscard]] bool commits_agree(const persistent_graph* graph, const testimony& outside);
/// Checks that the heap is exactly at its last commit: compares it with the sidecar, walks the graph, and reads the
/// same part of the text again into plain containers. Prints the results. `graph` may be null: then there must be no
/// commit.
[[nodiscard]] bool verify_last_commit(const holdfast::manager& heap, const persistent_graph* graph,
                                      const testimony& outside, std::string_view text);

}  // namespace package_graph
