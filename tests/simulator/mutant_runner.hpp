// Runs the mutants of a list of sites, each in a process of its own, as many at once as there are processors: a program
// without its checks may crash, which counts as noticed, or never end, which counts as undecided.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace holdfast::simulator {

enum class mutant_verdict { survived, killed, undecided };

/// Of the sites seen so far, those that a mutant can leave out and that are not the tests' own (their names begin with
/// one of `others`).
[[nodiscard]] std::vector<std::string> mutant_sites(const std::vector<std::string>& others);

/// `notice` runs with the mutant of the site selected, and answers which exploration noticed it, or nothing. A mutant
/// that takes longer than `seconds` is neither killed nor equivalent.
[[nodiscard]] std::map<std::string, mutant_verdict> run_mutants(
    const std::vector<std::string>& sites, unsigned seconds,
    const std::function<std::string(const std::string&)>& notice);

/// Fails the test that calls it unless all mutants are killed but those listed as equivalent, each with the proof; and
/// where there were fewer than expected.
void expect_all_killed(const std::map<std::string, mutant_verdict>& verdicts,
                       const std::map<std::string, std::string>& equivalent, std::size_t killed_at_least = 20);

}  // namespace holdfast::simulator
