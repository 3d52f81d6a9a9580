// Runs the program `holdfast`, or another, and collects what it says.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace holdfast::support {

struct answer {
    int status = -1;  ///< exit status; 128 + signal where one killed it
    std::string out;
    std::string err;

    /// Standard output as JSON; fails the test where it is none.
    [[nodiscard]] nlohmann::json json() const;
};

/// A program, by its path or its name in PATH.
[[nodiscard]] answer run_program(const std::string& program, const std::vector<std::string>& arguments);
[[nodiscard]] answer run_holdfast(const std::vector<std::string>& arguments);
/// Its standard output and error are a terminal of so many columns; what it says is `out`, with lines that end in \n.
[[nodiscard]] answer run_holdfast_on_terminal(const std::vector<std::string>& arguments, unsigned short columns);

}  // namespace holdfast::support
