#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <holdfast/check_indexes.hpp>
#include <holdfast/heap_glance.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/store_in_heap.hpp>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "output.hpp"
#include "progress.hpp"

namespace holdfast_cli {

namespace {

/// Damage is a problem that `check` reports; other errors (no heap, no permission, a writer) prevent the check.
bool is_damage(const holdfast::error& what) {
    return what.reason() == holdfast::errc::corrupt || what.reason() == holdfast::errc::missing;
}

std::string what_was_sound(bool pages, const holdfast::manager::page_comparison& counted) {
    if (!pages) {
        return "its tables are sound; pages were not compared";
    }
    if (counted.compared == 0) {
        return "its tables are sound; no page has a checksum, for it was last open in durability atomic or collect: "
               "nothing was compared";
    }
    return fmt::format("sound: {} pages compared with their checksums; {} have none", counted.compared,
                       counted.without_checksum);
}

void check_stores(holdfast::manager& heap, std::vector<std::string>& problems) {
    for (const std::string& name : holdfast::stores_of(heap)) {
        try {
            static_cast<void>(holdfast::heap_store(heap, name).check());
        } catch (const holdfast::store_error& what) {
            problems.push_back(fmt::format("store {}: {}", name, what.what()));
        } catch (const holdfast::error& what) {
            problems.push_back(fmt::format("store {}: {}", name, what.what()));
        }
    }
}

}  // namespace

int check(const arguments& given, bool pages) {
    std::vector<std::string> problems;
    holdfast::manager::page_comparison counted;
    std::optional<json> stopped_by;
    try {
        holdfast::manager heap(holdfast::open_read_only, given.heap, to_examine());
        const progress shown({.what = "check",
                              .all = holdfast::glance_at(given.heap).apparent_bytes,
                              .done = bytes_read,
                              .is_wanted = pages && !given.json});
        problems = heap.check(pages);
        const std::vector<std::string> of_indexes = holdfast::check_indexes(heap);
        problems.insert(problems.end(), of_indexes.begin(), of_indexes.end());
        check_stores(heap, problems);
        counted = heap.last_comparison();
    } catch (const holdfast::error& what) {
        if (!is_damage(what)) {
            throw;
        }
        // The heap cannot be opened: this is the only problem that is known.
        problems.emplace_back(what.what());
        stopped_by = describe(what);
    }
    if (given.json) {
        json answer;
        answer["path"] = given.heap;
        answer["sound"] = problems.empty();
        if (problems.empty() && pages && counted.compared == 0) {
            answer["sound"] = nullptr;  // unknown: nothing could be compared
        }
        answer["opened"] = !stopped_by.has_value();
        answer["pages_compared"] = counted.compared;
        answer["pages_without_checksum"] = counted.without_checksum;
        answer["problems"] = problems;
        if (stopped_by) {
            answer["error"] = *stopped_by;
        }
        print(answer);
    } else if (problems.empty()) {
        fmt::print("{}: {}\n", printable(given.heap), what_was_sound(pages, counted));
    } else {
        for (const std::string& problem : problems) {
            fmt::print("{}\n", printable(problem));
        }
        fmt::print("{}: {} problem{}{}\n", printable(given.heap), problems.size(), problems.size() == 1 ? "" : "s",
                   stopped_by ? "; it does not open, so there may be more" : "");
    }
    if (!problems.empty()) {
        return exit_problems;
    }
    return pages && counted.compared == 0 ? exit_nothing : exit_sound;
}

}  // namespace holdfast_cli
