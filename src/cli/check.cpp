#include <optional>
#include <vector>

#include <fmt/format.h>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "output.hpp"

namespace holdfast_cli {

namespace {

/// Damage to the heap is what `check` looks for; anything else (no heap, no permission, a writer) keeps it from
/// looking.
bool is_damage(const holdfast::error& what) {
    return what.reason() == holdfast::errc::corrupt || what.reason() == holdfast::errc::missing;
}

}  // namespace

int check(const arguments& given, bool pages) {
    std::vector<std::string> problems;
    std::optional<json> stopped_by;
    try {
        const holdfast::manager heap(holdfast::open_read_only, given.heap);
        problems = heap.check(pages);
    } catch (const holdfast::error& what) {
        if (!is_damage(what)) {
            throw;
        }
        // The heap cannot even be opened: that is the one problem that is known.
        problems.emplace_back(what.what());
        stopped_by = describe(what);
    }
    if (given.json) {
        json answer;
        answer["path"] = given.heap;
        answer["sound"] = problems.empty();
        answer["opened"] = !stopped_by.has_value();
        answer["pages_checked"] = pages && !stopped_by;
        answer["problems"] = problems;
        if (stopped_by) {
            answer["error"] = *stopped_by;
        }
        print(answer);
    } else if (problems.empty()) {
        fmt::print("{}: sound{}\n", printable(given.heap), pages ? "" : " (pages were not compared)");
    } else {
        for (const std::string& problem : problems) {
            fmt::print("{}\n", printable(problem));
        }
        fmt::print("{}: {} problem{}{}\n", printable(given.heap), problems.size(), problems.size() == 1 ? "" : "s",
                   stopped_by ? "; it does not open, so there may be more" : "");
    }
    return problems.empty() ? exit_sound : exit_problems;
}

}  // namespace holdfast_cli
