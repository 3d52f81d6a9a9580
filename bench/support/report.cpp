#include "support/report.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "support/environment.hpp"

namespace bench {

void common_options::declare(holdfast_programs::command_line& app) {
    app.add_option("--directory,--dir", directory, "Where the files are made, and removed again").show_default();
    app.add_option("--rounds,--repeat", rounds, "Measured runs of everything, in turn")
        .show_default()
        .range(1U, 1'000U);
    app.add_option("--seed", seed, "Of the workload").show_default();
    app.add_flag("--json", json, "One JSON object a line instead of tables");
    app.add_flag("--smoke", smoke, "Smallest sizes, one round: shows that the benchmark runs, judges nothing");
    app.add_flag("--require-goals", require_goals, "Exit with 1 where a goal is missed");
}

cell label(std::string key, const std::string& text) { return {std::move(key), text, text}; }
cell count(std::string key, std::uint64_t value) { return {std::move(key), fmt::format("{}", value), value}; }
cell number(std::string key, double value) { return {std::move(key), fmt::format("{:.2f}", value), value}; }

cell times(std::string key, const samples& measured) {
    return {std::move(key),
            fmt::format("{:.2f} ({:.2f}-{:.2f})", measured.median(), measured.least(), measured.greatest()),
            {{"median", measured.median()}, {"least", measured.least()}, {"greatest", measured.greatest()}}};
}

report::report(std::string benchmark, const common_options& options)
    : benchmark_(std::move(benchmark)), options_(options) {}

void report::line(const nlohmann::ordered_json& fields) const {
    nlohmann::ordered_json whole;
    whole["benchmark"] = benchmark_;
    whole.update(fields);
    fmt::print("{}\n", whole.dump());
    std::fflush(stdout);
}

void report::begin(nlohmann::ordered_json parameters) {
    std::filesystem::create_directories(options_.directory);
    const auto environment = describe_environment(options_.directory);
    parameters["rounds"] = options_.rounds;
    parameters["seed"] = options_.seed;
    if (options_.json) {
        line(
            {{"record", "begin"}, {"smoke", options_.smoke}, {"environment", environment}, {"parameters", parameters}});
        return;
    }
    const auto print_all = [](const nlohmann::ordered_json& fields) {
        for (const auto& [key, value] : fields.items()) {
            fmt::print("  {:<14} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
        }
    };
    fmt::print("{}{}\n", benchmark_, options_.smoke ? " (smoke run: the numbers mean nothing)" : "");
    print_all(environment);
    print_all(parameters);
    std::fflush(stdout);
}

void report::table(const std::string& title, const std::vector<row>& rows) {
    if (options_.json) {
        for (const row& cells : rows) {
            nlohmann::ordered_json fields{{"record", "measurement"}, {"table", title}};
            for (const cell& one : cells) {
                fields[one.key] = one.value;
            }
            line(fields);
        }
        return;
    }
    fmt::print("\n{}\n", title);
    if (rows.empty()) {
        return;
    }
    std::vector<std::size_t> widths;
    for (std::size_t column = 0; column < rows.front().size(); ++column) {
        std::size_t width = rows.front()[column].key.size();
        for (const row& cells : rows) {
            width = std::max(width, cells[column].text.size());
        }
        widths.push_back(width);
    }
    const auto print_row = [&](const row& cells, bool heading) {
        for (std::size_t column = 0; column < cells.size(); ++column) {
            std::string text = heading ? cells[column].key : cells[column].text;
            if (heading) {
                std::replace(text.begin(), text.end(), '_', ' ');
            }
            if (cells[column].value.is_string()) {
                fmt::print("  {:<{}}", text, widths[column]);
            } else {
                fmt::print("  {:>{}}", text, widths[column]);
            }
        }
        fmt::print("\n");
    };
    print_row(rows.front(), true);
    for (const row& cells : rows) {
        print_row(cells, false);
    }
    std::fflush(stdout);
}

void report::goal(const std::string& what, double measured, const char* relation, double limit, const std::string& unit,
                  bool holds) {
    const char* const verdict = options_.smoke ? "not judged" : (holds ? "holds" : "MISSED");
    missed_ = missed_ || (!options_.smoke && !holds);
    goals_.push_back({{"record", "goal"},
                      {"goal", what},
                      {"measured", measured},
                      {"relation", relation},
                      {"limit", limit},
                      {"unit", unit},
                      {"verdict", verdict}});
    if (options_.json) {
        line(goals_.back());
        return;
    }
    fmt::print("goal: {}: {:.2f} {} {} {:.2f} {}: {}\n", what, measured, unit, relation, limit, unit, verdict);
    std::fflush(stdout);
}

void report::goal_at_most(const std::string& what, double measured, double limit, const std::string& unit) {
    goal(what, measured, "<=", limit, unit, measured <= limit);
}
void report::goal_at_least(const std::string& what, double measured, double limit, const std::string& unit) {
    goal(what, measured, ">=", limit, unit, measured >= limit);
}

void report::note(const std::string& text) {
    if (options_.json) {
        line({{"record", "note"}, {"note", text}});
    } else {
        fmt::print("{}\n", text);
    }
}

void report::checksum(std::uint64_t value) {
    const std::string text = fmt::format("{:016x}", value);
    if (options_.json) {
        line({{"record", "checksum"}, {"checksum", text}});
    } else {
        fmt::print("checksum: {}\n", text);
    }
}

int report::exit_status() const noexcept { return missed_ && options_.require_goals ? 1 : 0; }

}  // namespace bench
