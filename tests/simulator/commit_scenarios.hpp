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

/// What the crash suite explores; and what suffices to kill mutants.
[[nodiscard]] explore_options full_effort();
[[nodiscard]] explore_options mutant_effort();

[[nodiscard]] explore_report explore(const commit_scenario& one, std::uint64_t atom_size,
                                     const explore_options& effort);

}  // namespace holdfast::simulator
