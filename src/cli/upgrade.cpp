// `holdfast upgrade`: formats, and what is to be done before another version opens a heap or a store.
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>
#include <holdfast/heap_glance.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/values.hpp>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "output.hpp"
#include "store.hpp"

namespace holdfast_cli {

namespace {

/// One heap or store.
struct finding {
    std::string path;
    std::string kind = "heap";
    std::string format;  ///< empty: unknown
    std::string state;   ///< of a heap that can be read
    std::vector<std::string> todo;
    std::string failure;  ///< it could not be read
};

constexpr std::string_view known_formats = HOLDFAST_HEAP_FORMAT;

std::uint64_t number_in(std::string_view text) {
    std::uint64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

std::string later_version(std::string_view what, std::string_view format) {
    return fmt::format(
        "a later version of Holdfast wrote the {} in format {}: install that one, or a later one; "
        "this is {}",
        what, format, HOLDFAST_VERSION);
}

std::string earlier_version(std::string_view what, std::string_view format) {
    return fmt::format(
        "format {} of the {} is older than the first release, and no release reads it: with the build that wrote it, "
        "write its content elsewhere, and store it again",
        format, what);
}

/// What Python programs have stored has a layout of its own, which its type's name has.
void inspect_values(const std::string& path, finding& found) {
    try {
        const holdfast::manager heap(holdfast::open_read_only, path, to_examine());
        for (auto each = heap.named_begin(); each != heap.named_end(); ++each) {
            constexpr std::string_view mark = "layout_";
            const std::string type = each->name() == holdfast::values::root_name ? each->readable_type_name() : "";
            const std::size_t at = type.find(mark);
            if (at == std::string::npos) {
                continue;
            }
            constexpr std::uint64_t known = 2;
            const std::uint64_t layout = number_in(std::string_view(type).substr(at + mark.size()));
            if (layout != known) {
                found.todo.push_back(
                    (layout > known ? later_version : earlier_version)("values of Python", std::to_string(layout)));
            }
        }
    } catch (const holdfast::error& what) {
        if (what.reason() != holdfast::errc::locked) {
            throw;
        }
    }
}

void inspect_state(const holdfast::heap_glance& glance, finding& found) {
    switch (glance.use) {
        case holdfast::heap_use::closed: found.state = "closed"; return;
        case holdfast::heap_use::open:
            found.state = "open";
            found.todo.emplace_back(
                "a program has it open: end its readers and its writer before you install another "
                "version, which may not read beside this one");
            return;
        case holdfast::heap_use::crashed:
            found.state = "crashed";
            found.todo.emplace_back("its last writer crashed: let the version that wrote it open and close it first");
            return;
    }
}

finding inspect_heap(const std::string& path) {
    finding found;
    found.path = path;
    try {
        refuse_lmdb(path);
        const holdfast::heap_glance glance = holdfast::glance_at(path);
        found.format = fmt::format("{}", glance.format);
        inspect_state(glance, found);
        inspect_values(path, found);
    } catch (const holdfast::error& what) {
        if (what.reason() == holdfast::errc::version_unsupported) {
            found.format = what.found();
            const bool is_later = number_in(found.format) > number_in(known_formats);
            found.todo.push_back((is_later ? later_version : earlier_version)("heap", found.format));
        } else {
            found.failure = what.what();
        }
    } catch (const std::runtime_error& what) {  // of refuse_lmdb()
        found.failure = what.what();
    }
    return found;
}

finding inspect_store(const std::string& path) {
    finding found;
    found.path = path;
    found.kind = "store";
    const std::uint32_t format = store_format(path);
    found.format = fmt::format("{}", format);
    constexpr std::uint32_t first_release = 7;
    if (format == 0) {
        found.failure = path + ": both metas are damaged";
    } else if (!is_known_store_format(format)) {
        found.todo.push_back((format > first_release ? later_version : earlier_version)("store", found.format));
    }
    return found;
}

void print_finding(const finding& of) {
    if (!of.failure.empty()) {
        fmt::print(stderr, "holdfast: {}\n", printable(of.failure));
        return;
    }
    fmt::print("{}: {} of format {}{}: {}\n", printable(of.path), of.kind, of.format,
               of.state.empty() ? "" : ", " + of.state,
               of.todo.empty() ? "nothing to do; this version and later ones open it" : "to do:");
    for (const std::string& each : of.todo) {
        fmt::print("  - {}\n", printable(each));
    }
}

json as_json(const finding& of) {
    return {{"path", of.path},
            {"kind", of.kind},
            {"format", of.format.empty() ? json() : json(of.format)},
            {"state", of.state.empty() ? json() : json(of.state)},
            {"todo", of.todo},
            {"failure", of.failure.empty() ? json() : json(of.failure)}};
}

}  // namespace

int upgrade(const std::vector<std::string>& paths, bool wants_json) {
    int status = exit_sound;
    json all = json::array();
    for (const std::string& path : paths) {
        const finding found = is_store(path) ? inspect_store(path) : inspect_heap(path);
        if (!found.failure.empty()) {
            status = exit_failed;
        } else if (!found.todo.empty() && status == exit_sound) {
            status = exit_problems;
        }
        if (wants_json) {
            all.push_back(as_json(found));
        } else {
            print_finding(found);
        }
    }
    if (wants_json) {
        print({{"version", HOLDFAST_VERSION}, {"heap_format", std::string(known_formats)}, {"found", std::move(all)}});
    }
    return status;
}

}  // namespace holdfast_cli
