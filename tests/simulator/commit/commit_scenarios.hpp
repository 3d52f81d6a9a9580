// The programs of the crash tests of the commit protocol, and the oracle that judges each image.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "simulator/commit/model_heap.hpp"
#include "simulator/crash_explorer.hpp"
#include "simulator/storage/simulated_storage.hpp"

namespace holdfast::simulator {

[[nodiscard]] inline std::vector<page_place> pages(std::uint64_t file, std::initializer_list<std::uint64_t> list) {
    std::vector<page_place> places;
    for (const std::uint64_t page : list) {
        places.emplace_back(file, page);
    }
    return places;
}
[[nodiscard]] inline std::vector<page_place> operator+(std::vector<page_place> a, const std::vector<page_place>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

struct commit_scenario {
    std::string name;
    std::uint64_t segment_size = 0;
    std::vector<model_step> program;  ///< the first step creates the heap
    std::uint64_t first_cut = 0;      ///< steps before the power may fail
    model_log log = model_log::of_few_commits;
};

[[nodiscard]] std::vector<commit_scenario> make_scenarios();
/// These, made once.
[[nodiscard]] const std::vector<commit_scenario>& commit_scenarios();
/// A heap and three random steps that change, grow and close, determined by the seed.
[[nodiscard]] commit_scenario random_scenario(std::uint64_t seed);

/// For the crash suite, whole and quick; enough to kill mutants; and for explore_deaths().
[[nodiscard]] explore_options full_effort();
[[nodiscard]] explore_options quick_effort();
[[nodiscard]] explore_options mutant_effort();
[[nodiscard]] explore_options death_effort();

[[nodiscard]] explore_report explore(const commit_scenario& one, std::uint64_t atom_size,
                                     const explore_options& effort);

/// The process dies at each operation in turn, or at one of so many, and the next one goes on: it sees all that was
/// written, and a power failure may take what was not synced.
[[nodiscard]] explore_report explore_deaths(const commit_scenario& one, std::uint64_t atom_size,
                                            const explore_options& effort, std::uint64_t one_death_of = 1);

/// Whether each commit rewrites pages of the first one, all under one checksum page. An incomplete write then never
/// looks complete: the checksum page at home disagrees with the pages that are not there yet, or the old checksum page
/// with those that are. (A page that was never written has no checksum.)
[[nodiscard]] bool rewrites_under_one_checksum_page(const commit_scenario& one);
/// After the power failure each log file loses bits in turn, one at a time, so many bytes apart (each page is met, and
/// with these 136 a record's head). Recovery must refuse, or show one commit whole. For scenarios with
/// rewrites_under_one_checksum_page(); sectors are the atoms.
[[nodiscard]] explore_report explore_damaged_logs(const commit_scenario& one, const explore_options& effort,
                                                  std::uint64_t apart = 136);

}  // namespace holdfast::simulator
