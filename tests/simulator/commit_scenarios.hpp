// The programs that the crash tests of the commit protocol run, and the oracle that judges each image.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/crash_explorer.hpp"
#include "simulator/model_heap.hpp"
#include "simulator/simulated_storage.hpp"

namespace holdfast::simulator {

struct commit_scenario {
    std::string name;
    std::uint64_t segment_size = 0;
    std::vector<model_step> program;  ///< the first step creates the heap
    std::uint64_t first_cut = 0;      ///< steps that are done in peace before the power may fail
};

[[nodiscard]] const std::vector<commit_scenario>& commit_scenarios();
/// A heap, and three steps that change, grow and close at random; the same for the same seed.
[[nodiscard]] commit_scenario random_scenario(std::uint64_t seed);

/// What the crash suite explores; and what suffices to kill mutants.
[[nodiscard]] explore_options full_effort();
[[nodiscard]] explore_options mutant_effort();

[[nodiscard]] explore_report explore(const commit_scenario& one, std::uint64_t atom_size,
                                     const explore_options& effort);

/// Whether each commit rewrites pages of the first, under one checksum page. Then what is half way home cannot look
/// whole: where that checksum page is in its place already, the pages that are missing differ from it, and where it is
/// not, those that are there. (A page that was never written has no checksum to differ from.)
[[nodiscard]] bool rewrites_under_one_checksum_page(const commit_scenario& one);
/// Not only does the power fail: the medium loses a bit of each page of the journal in turn. Recovery refuses, or shows
/// one commit whole. For scenarios of the kind above; sectors are the atoms.
[[nodiscard]] explore_report explore_damaged_journals(const commit_scenario& one, const explore_options& effort);

}  // namespace holdfast::simulator
