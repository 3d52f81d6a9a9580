#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "output.hpp"
#include "progress.hpp"

namespace holdfast_cli {

namespace {

/// Parses a size: "1500", "64M", "2 GiB". Throws std::invalid_argument.
std::uint64_t bytes_of(std::string_view text) {
    std::uint64_t number = 0;
    const auto [end, wrong] = std::from_chars(text.begin(), text.end(), number);
    std::string_view unit = text.substr(static_cast<std::size_t>(end - text.begin()));
    while (!unit.empty() && unit.front() == ' ') {
        unit.remove_prefix(1);
    }
    constexpr std::string_view letters = "KMGT";
    unsigned shift = 0;
    bool known = unit.empty() || unit == "B";
    if (!known) {
        const auto at = letters.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit.front()))));
        const std::string_view rest = unit.substr(1);
        known = at != std::string_view::npos && (rest.empty() || rest == "B" || rest == "iB");
        shift = known ? 10 * static_cast<unsigned>(at + 1) : 0;
    }
    if (wrong != std::errc{} || !known || number > std::numeric_limits<std::uint64_t>::max() >> shift) {
        throw std::invalid_argument(fmt::format("--target: found \"{}\", expected a size, as 1500, 64M or 2G", text));
    }
    return number << shift;
}

json as_json(const arguments& given, const holdfast::shrink_report& done, std::uint64_t target, bool reached) {
    json object;
    object["path"] = given.heap;
    object["charged_before"] = done.charged_before;
    object["charged_after"] = done.charged_after;
    object["apparent_before"] = done.apparent_before;
    object["apparent_after"] = done.apparent_after;
    object["given_back"] = done.given_back;
    object["shortened"] = done.shortened;
    if (!given.target.empty()) {
        object["target"] = target;
        object["reached"] = reached;
    }
    return object;
}

}  // namespace

int defrag(const arguments& given) {
    const std::uint64_t target = given.target.empty() ? 0 : bytes_of(given.target);
    // The open recovers a crashed heap.
    holdfast::manager heap(holdfast::open_only, given.heap, to_change());
    progress shown({.what = "space given back", .is_wanted = !given.json});
    holdfast::shrink_options wanted;
    wanted.target = target;
    const holdfast::heap_statistics before = heap.statistics();
    const std::uint64_t least = std::max(target, before.allocated_bytes);
    const std::uint64_t all = before.charged_bytes - std::min(before.charged_bytes, least);
    wanted.progress = [&shown, all](const holdfast::shrink_report& so_far) {
        shown.update("space given back", so_far.given_back, std::max(all, so_far.given_back));
    };
    const holdfast::shrink_report done = heap.shrink(wanted);
    shown.end();
    heap.close();
    const bool reached = done.charged_after <= target;
    if (given.json) {
        print(as_json(given, done, target, reached));
    } else {
        print_line("charged before", size_text(done.charged_before));
        print_line("charged after", size_text(done.charged_after));
        print_line("holes made", size_text(done.given_back));
        print_line("heap shortened by", size_text(done.shortened));
        if (!given.target.empty() && !reached) {
            print_line("target", fmt::format("{}: missed, all that is left is in use", size_text(target)));
        }
    }
    return given.target.empty() || reached ? exit_sound : exit_failed;
}

}  // namespace holdfast_cli
