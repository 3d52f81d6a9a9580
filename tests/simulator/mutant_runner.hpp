// Runs mutants by site, each in a process of its own, as many at once as there are processors. A mutant that crashes
// counts as killed; one that does not end, as undecided.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace holdfast::simulator {

enum class mutant_verdict { survived, killed, undecided };

/// The sites seen so far at which a mutant can omit something, except the tests' own, whose names begin with one of
/// `others`.
[[nodiscard]] std::vector<std::string> mutant_sites(const std::vector<std::string>& others);

/// `notice` runs with the site's mutant selected and returns which exploration noticed it, or nothing. After
/// `seconds` of the processor's time the mutant is undecided.
[[nodiscard]] std::map<std::string, mutant_verdict> run_mutants(
    const std::vector<std::string>& sites, unsigned seconds,
    const std::function<std::string(const std::string&)>& notice);

/// The calling test fails unless all mutants are killed but those listed as equivalent, each with its proof; and if
/// fewer were killed than expected.
void expect_all_killed(const std::map<std::string, mutant_verdict>& verdicts,
                       const std::map<std::string, std::string>& equivalent, std::size_t killed_at_least = 20);

}  // namespace holdfast::simulator
