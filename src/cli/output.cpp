#include "output.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace holdfast_cli {

namespace {

struct character {
    std::size_t bytes;
    bool is_shown;
};

/// Of control characters and of those that change what others around them look like.
bool is_control(std::uint32_t code) noexcept {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || (code >= 0x200b && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) || code == 0xfeff;
}

/// A byte that begins no UTF-8 sequence (RFC 3629) is a character by itself, and not shown.
character first_character(std::string_view text) noexcept {
    const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const std::uint32_t lead = byte(0);
    const std::size_t bytes = lead < 0x80                   ? 1
                              : lead >= 0xc2 && lead < 0xe0 ? 2
                              : lead >= 0xe0 && lead < 0xf0 ? 3
                              : lead >= 0xf0 && lead < 0xf5 ? 4
                                                            : 0;
    constexpr character none{1, false};
    if (bytes == 0 || bytes > text.size()) {
        return none;
    }
    std::uint32_t code = bytes == 1 ? lead : lead & (0x7fU >> bytes);
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xc0U) != 0x80) {
            return none;
        }
        code = code << 6U | (byte(i) & 0x3fU);
    }
    const bool is_long = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
    if (is_long || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
        return none;
    }
    return {bytes, !is_control(code)};
}

/// Characters, each of which is taken for one column.
std::size_t columns_of(std::string_view text) noexcept {
    std::size_t columns = 0;
    for (; !text.empty(); ++columns) {
        text.remove_prefix(first_character(text).bytes);
    }
    return columns;
}

/// With dots at the end where it has more columns.
std::string cut_to(std::string_view text, std::size_t columns) {
    constexpr std::string_view dots = "...";
    if (columns_of(text) <= columns) {
        return std::string(text);
    }
    std::size_t bytes = 0;
    for (std::size_t i = 0; i + dots.size() < columns; ++i) {
        bytes += first_character(text.substr(bytes)).bytes;
    }
    return std::string(text.substr(0, bytes)) + std::string(dots);
}

}  // namespace

holdfast::open_options to_change() {
    holdfast::open_options options;
    options.on_replay = [](std::uint64_t done, std::uint64_t all) {
        fmt::print(stderr, "holdfast: the last commits are written to their places: {} of {}\n", size_text(done),
                   size_text(all));
    };
    return options;
}

std::string short_size_text(std::uint64_t bytes) {
    static constexpr std::array<std::string_view, 7> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        return fmt::format("{} B", bytes);
    }
    auto scaled = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (scaled >= 1024 && unit + 1 < units.size()) {
        scaled /= 1024;
        ++unit;
    }
    return fmt::format("{:.1f} {}", scaled, units.at(unit));
}

std::string size_text(std::uint64_t bytes) {
    return bytes < 1024 ? short_size_text(bytes) : fmt::format("{} B ({})", bytes, short_size_text(bytes));
}

std::string time_text(std::int64_t nanoseconds_since_1970) {
    if (nanoseconds_since_1970 == 0) {
        return "never";
    }
    constexpr std::int64_t second = 1'000'000'000;
    std::int64_t fraction = nanoseconds_since_1970 % second;
    auto seconds = static_cast<std::time_t>(nanoseconds_since_1970 / second);
    if (fraction < 0) {
        fraction += second;
        --seconds;
    }
    std::tm fields{};
    if (::gmtime_r(&seconds, &fields) == nullptr) {
        return fmt::format("{} ns since 1970", nanoseconds_since_1970);
    }
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", fields.tm_year + 1900, fields.tm_mon + 1,
                       fields.tm_mday, fields.tm_hour, fields.tm_min, fields.tm_sec, fraction);
}

void print_line(std::string_view label, std::string_view value) { fmt::print("{:<20}{}\n", label, value); }

std::string table_text(const std::vector<std::vector<std::string>>& rows, std::size_t most_columns) {
    constexpr std::size_t between = 2;
    constexpr std::size_t least_width = 12;  // of a column that is cut
    std::vector<std::size_t> widths(rows.front().size());
    for (const auto& row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            widths[i] = std::max(widths[i], columns_of(row[i]));
        }
    }
    std::size_t all = between * (widths.size() - 1);
    for (const std::size_t width : widths) {
        all += width;
    }
    while (most_columns != 0 && all > most_columns) {
        std::size_t& widest = *std::ranges::max_element(widths);
        if (widest <= least_width) {
            break;
        }
        --widest;
        --all;
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::string cell = cut_to(row[i], widths[i]);
            line += cell + std::string(widths[i] - columns_of(cell) + between, ' ');
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

void print_table(const std::vector<std::vector<std::string>>& rows) {
    winsize terminal{};
    const bool is_terminal = ::isatty(STDOUT_FILENO) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &terminal) == 0;
    fmt::print("{}", table_text(rows, is_terminal ? terminal.ws_col : 0U));
}

json describe(const holdfast::error& what) {
    json object;
    object["code"] = what.code().message();
    object["message"] = what.what();
    const auto add = [&object](const char* key, const std::string& value) {
        if (!value.empty()) {
            object[key] = value;
        }
    };
    add("path", what.path());
    add("field", what.field());
    add("found", what.found());
    add("expected", what.expected());
    add("hint", what.hint());
    if (what.os_error() != 0) {
        object["errno"] = what.os_error();
    }
    return object;
}

void print(const json& object) {
    const std::string text = object.dump(-1, ' ', false, json::error_handler_t::replace);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fputc('\n', stdout);
}

void print_failure(const std::string& heap, const holdfast::error& what) {
    print({{"path", heap}, {"error", describe(what)}});
}

std::string printable(std::string_view text) {
    std::string shown;
    while (!text.empty()) {
        const character next = first_character(text);
        const std::string_view bytes = text.substr(0, next.bytes);
        if (next.is_shown) {
            shown += bytes;
        } else {
            for (const char byte : bytes) {
                shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
            }
        }
        text.remove_prefix(next.bytes);
    }
    return shown;
}

}  // namespace holdfast_cli
