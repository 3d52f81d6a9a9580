// What every benchmark prints: environment, parameters, tables, goals, checksum; with --json one object a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "command_line/command_line.hpp"
#include "support/samples.hpp"

namespace bench {

struct common_options {
    std::filesystem::path directory = ".";
    unsigned rounds = 5;
    std::uint64_t seed = 20'231'016;
    bool json = false;
    bool smoke = false;
    bool require_goals = false;

    void declare(holdfast_programs::command_line& app);
};

/// One value of a row: its key (snake_case, with the unit at its end) heads the column.
struct cell {
    std::string key;
    std::string text;
    nlohmann::ordered_json value;
};
[[nodiscard]] cell label(std::string key, const std::string& text);
[[nodiscard]] cell count(std::string key, std::uint64_t value);
[[nodiscard]] cell number(std::string key, double value);
/// Median, least and greatest in milliseconds; `key` ends with _ms.
[[nodiscard]] cell times(std::string key, const samples& measured);
using row = std::vector<cell>;

class report {
public:
    report(std::string benchmark, const common_options& options);

    /// The environment of the measurement and the parameters; first of all.
    void begin(nlohmann::ordered_json parameters);
    /// A table; all rows have the keys of the first.
    void table(const std::string& title, const std::vector<row>& rows);
    /// What was measured must not exceed (at_most) or not fall below the limit. Smoke runs judge nothing.
    void goal_at_most(const std::string& what, double measured, double limit, const std::string& unit);
    void goal_at_least(const std::string& what, double measured, double limit, const std::string& unit);
    /// Judged so far, as --json prints them.
    [[nodiscard]] const nlohmann::ordered_json& goals() const noexcept { return goals_; }
    void note(const std::string& text);
    void checksum(std::uint64_t value);
    /// 1 where a goal was missed and --require-goals was given.
    [[nodiscard]] int exit_status() const noexcept;

private:
    void goal(const std::string& what, double measured, const char* relation, double limit, const std::string& unit,
              bool holds);
    void line(const nlohmann::ordered_json& fields) const;

    std::string benchmark_;
    common_options options_;
    bool missed_ = false;
    nlohmann::ordered_json goals_ = nlohmann::ordered_json::array();
};

}  // namespace bench
