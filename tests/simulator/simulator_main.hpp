// The options of the programs of the crash simulator, and their main function.
//
//   --programs N       so many random programs
//   --quick            the shorter form, of `make test`
//   --mutants A,B      these mutants alone, each of which must be killed
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

    /// The number of random programs, where none was asked for: that of the whole run, or of the quick one.
    [[nodiscard]] std::uint64_t programs_or(std::uint64_t whole, std::uint64_t short_form) const noexcept {
        return programs.value_or(quick ? short_form : whole);
    }
};

/// As given to simulator_main.
[[nodiscard]] const simulator_options& options() noexcept;

/// Runs the tests of the program. Exit status 2 where an option is unknown.
[[nodiscard]] int simulator_main(int count, char** arguments);

}  // namespace holdfast::simulator
