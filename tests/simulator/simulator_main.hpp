// The options of the crash simulator's programs, and their main function.
//
//   --programs N       N random programs
//   --quick            the shorter form, of `make test`
//   --mutants A,B      only these mutants; each must be killed
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::simulator {

struct simulator_options {
    std::optional<std::uint64_t> programs;
    bool quick = false;
    std::vector<std::string> mutants;

    /// The number of random programs: as asked, or `whole`, or `short_form` in a quick run.
    [[nodiscard]] std::uint64_t programs_or(std::uint64_t whole, std::uint64_t short_form) const noexcept {
        return programs.value_or(quick ? short_form : whole);
    }
};

/// As given to simulator_main().
[[nodiscard]] const simulator_options& options() noexcept;

/// Runs the tests. Exit status 2 for an unknown option.
[[nodiscard]] int simulator_main(int count, char** arguments);

}  // namespace holdfast::simulator
