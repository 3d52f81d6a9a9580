#include "control_file.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include "checksum.hpp"

namespace package_graph {
namespace {

constexpr std::string_view blanks = " \t\r\n";

[[nodiscard]] std::string_view trim(std::string_view text) noexcept {
    const std::size_t first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) {
        return {};
    }
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

[[nodiscard]] constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

[[nodiscard]] constexpr bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

[[nodiscard]] bool same_field(std::string_view a, std::string_view lower_case) noexcept {
    return std::ranges::equal(a, lower_case, [](char x, char y) {
        return (x >= 'A' && x <= 'Z' ? static_cast<char>(x - 'A' + 'a') : x) == y;
    });
}

/// Removes the next item and its separator from `rest`, and returns the item.
[[nodiscard]] std::string_view take_item(std::string_view& rest, char separator) noexcept {
    const std::size_t end = rest.find(separator);
    const std::string_view item = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    return item;
}

[[nodiscard]] std::string_view take_digits(std::string_view& rest) noexcept {
    const std::size_t length = std::min(rest.size(), rest.find_first_not_of("0123456789"));
    const std::string_view digits = rest.substr(0, length);
    rest.remove_prefix(length);
    return digits.substr(std::min(digits.size(), digits.find_first_not_of('0')));
}

/// The order of characters that are no digits: `~`, then the end or a digit, then letters, then all others.
[[nodiscard]] constexpr int weight(std::string_view text) noexcept {
    if (text.empty() || is_digit(text.front())) {
        return 0;
    }
    const char c = text.front();
    if (c == '~') {
        return -1;
    }
    const int code = static_cast<unsigned char>(c);
    return is_letter(c) ? code : code + 256;
}

/// Compares an upstream version or a revision: runs of non-digits and numbers alternate.
[[nodiscard]] std::strong_ordering compare_part(std::string_view a, std::string_view b) noexcept {
    while (!a.empty() || !b.empty()) {
        while ((!a.empty() && !is_digit(a.front())) || (!b.empty() && !is_digit(b.front()))) {
            if (const auto order = weight(a) <=> weight(b); std::is_neq(order)) {
                return order;
            }
            a.remove_prefix(1);
            b.remove_prefix(1);
        }
        const std::string_view x = take_digits(a);
        const std::string_view y = take_digits(b);
        if (const auto order = x.size() <=> y.size(); std::is_neq(order)) {
            return order;
        }
        if (const int order = x.compare(y); order != 0) {
            return order <=> 0;
        }
    }
    return std::strong_ordering::equal;
}

struct version_parts {
    std::string_view epoch;
    std::string_view upstream;
    std::string_view revision;
};

[[nodiscard]] version_parts split_version(std::string_view version) noexcept {
    version_parts parts;
    if (const std::size_t colon = version.find(':'); colon != std::string_view::npos) {
        parts.epoch = version.substr(0, colon);
        version.remove_prefix(colon + 1);
    }
    const std::size_t dash = version.rfind('-');
    parts.upstream = version.substr(0, dash);
    if (dash != std::string_view::npos) {
        parts.revision = version.substr(dash + 1);
    }
    return parts;
}

}  // namespace

std::string_view control_reader::take_line() noexcept {
    ++line_;
    return take_item(rest_, '\n');
}

std::string_view control_reader::take_field_value(std::string_view first_line) noexcept {
    const char* const begin = first_line.data();
    std::size_t length = first_line.size();
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t')) {
        if (trim(rest_.substr(0, rest_.find('\n'))).empty()) {
            break;  // a line of blanks ends the stanza, as an empty one does
        }
        const std::string_view line = take_line();
        length = static_cast<std::size_t>(line.data() + line.size() - begin);
    }
    return trim({begin, length});
}

bool control_reader::next(stanza& into) {
    into = {};
    bool in_stanza = false;
    const std::uint64_t first_line = line_ + 1;
    while (!rest_.empty()) {
        const std::string_view line = take_line();
        if (trim(line).empty()) {
            if (in_stanza) {
                break;
            }
            continue;
        }
        if (line.front() == '#') {
            continue;
        }
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos || colon == 0 || line.front() == ' ' || line.front() == '\t') {
            throw input_error(fmt::format("line {}: found '{}', expected 'Field: value'", line_, line.substr(0, 60)));
        }
        in_stanza = true;
        const std::string_view name = line.substr(0, colon);
        const std::uint64_t field_line = line_;
        const std::string_view value = take_field_value(line.substr(colon + 1));
        if (same_field(name, "package")) {
            into.package = value;
        } else if (same_field(name, "version")) {
            into.version = value;
        } else if (same_field(name, "depends")) {
            into.depends = value;
        } else if (same_field(name, "pre-depends")) {
            into.pre_depends = value;
        } else if (same_field(name, "provides")) {
            into.provides = value;
        } else if (same_field(name, "installed-size")) {
            const auto parsed = std::from_chars(value.data(), value.data() + value.size(), into.installed_kib);
            if (parsed.ec != std::errc{} || parsed.ptr != value.data() + value.size()) {
                throw input_error(fmt::format("line {}: Installed-Size: found '{}', expected a number of KiB",
                                              field_line, value.substr(0, 60)));
            }
        }
    }
    if (in_stanza && into.package.empty()) {
        throw input_error(fmt::format("lines {} to {}: a stanza without the field Package", first_line, line_));
    }
    return in_stanza;
}

std::uint64_t control_reader::skip(std::uint64_t count) {
    stanza ignored;
    std::uint64_t skipped = 0;
    while (skipped < count && next(ignored)) {
        ++skipped;
    }
    return skipped;
}

void parse_relations(std::string_view field, std::vector<relation>& relations) {
    relations.clear();
    std::uint32_t group = 0;
    while (!field.empty()) {
        std::string_view alternatives = take_item(field, ',');
        const std::size_t before = relations.size();
        while (!alternatives.empty()) {
            const std::string_view text = trim(take_item(alternatives, '|'));
            const std::size_t name_end = std::min(text.size(), text.find_first_of(" \t\r\n(:[<"));
            if (name_end == 0) {
                continue;
            }
            std::string_view constraint;
            if (const std::size_t open = text.find('('); open != std::string_view::npos) {
                constraint = trim(text.substr(open + 1, text.find(')', open) - open - 1));
            }
            relations.push_back({text.substr(0, name_end), constraint, group});
        }
        if (relations.size() > before) {
            ++group;
        }
    }
}

std::strong_ordering compare_versions(std::string_view a, std::string_view b) noexcept {
    const version_parts x = split_version(a);
    const version_parts y = split_version(b);
    if (const auto order = compare_part(x.epoch, y.epoch); std::is_neq(order)) {
        return order;
    }
    if (const auto order = compare_part(x.upstream, y.upstream); std::is_neq(order)) {
        return order;
    }
    return compare_part(x.revision, y.revision);
}

std::string read_inputs(const std::vector<std::string>& paths) {
    std::string text;
    for (const std::string& path : paths) {
        errno = 0;
        std::ifstream file(path, std::ios::binary | std::ios::ate);
        const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
        if (size < 0 || size == std::numeric_limits<std::streamoff>::max()) {  // the latter: a directory
            throw std::system_error(errno != 0 ? errno : EISDIR, std::generic_category(), "cannot read " + path);
        }
        const std::size_t before = text.size();
        text.resize(before + static_cast<std::size_t>(size));
        file.seekg(0);
        file.read(text.data() + before, size);
        if (!file) {
            throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(), "cannot read " + path);
        }
        text += "\n\n";
    }
    return text;
}

input_identity identify(std::string_view text) noexcept { return {text.size(), checksum64{}.add(text).value()}; }

}  // namespace package_graph
