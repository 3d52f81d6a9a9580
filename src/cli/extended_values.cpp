#include "extended_values.hpp"

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arrow_stream.hpp"

namespace holdfast_cli {

namespace {

using values::kind;
using values::value;
using text_or_none = std::optional<std::string>;

constexpr std::int64_t second = 1'000'000;  // in microseconds, as all below
constexpr std::int64_t day = 86'400 * second;
constexpr std::int64_t days_of_python = 3'652'059;  // from the year 1 to the year 9999

std::optional<std::int64_t> integer_of(const value& of) {
    return of.what == kind::integer ? std::optional(of.integer()) : std::nullopt;
}

/// Counted from the first day of the year 1, which is 0.
std::string date_text(std::int64_t days) {
    using namespace std::chrono;
    const year_month_day date{sys_days{year{1} / January / 1} + std::chrono::days{days}};
    return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                       static_cast<unsigned>(date.day()));
}

/// "03:04:05", with the microseconds where there are any.
std::string clock_text(std::int64_t microseconds) {
    const std::int64_t seconds = microseconds / second;
    const std::int64_t rest = microseconds % second;
    return fmt::format("{:02}:{:02}:{:02}{}", seconds / 3600, seconds / 60 % 60, seconds % 60,
                       rest == 0 ? "" : fmt::format(".{:06}", rest));
}

/// "+01:00".
std::string offset_text(std::int64_t microseconds) {
    const std::string text = clock_text(std::abs(microseconds));
    return (microseconds < 0 ? "-" : "+") + (text.ends_with(":00") ? text.substr(0, text.size() - 3) : text);
}

text_or_none text_of_date(const value_tree& /*tree*/, const value& content) {
    const auto days = integer_of(content);  // from 1 on
    return days && *days >= 1 && *days <= days_of_python ? text_or_none(date_text(*days - 1)) : std::nullopt;
}

text_or_none text_of_moment(std::int64_t microseconds) {
    if (microseconds < 0 || microseconds / day >= days_of_python) {
        return std::nullopt;
    }
    return date_text(microseconds / day) + "T" + clock_text(microseconds % day);
}

/// A number, or a tuple: the number; which of two equal times of a clock; an offset and its name, or the name of a
/// zone.
text_or_none text_of_datetime(const value_tree& tree, const value& content) {
    if (const auto plain = integer_of(content)) {
        return text_of_moment(*plain);
    }
    if (content.what != kind::tuple) {
        return std::nullopt;
    }
    const std::vector<const value*> parts = tree.elements_of(content);
    const auto count = parts.size() < 2 ? std::nullopt : integer_of(*parts[0]);
    text_or_none text = count ? text_of_moment(*count) : std::nullopt;
    if (!text || parts.size() == 2) {
        return text;
    }
    if (parts[2]->what == kind::text) {
        return *text + "[" + std::string(tree.bytes_of(*parts[2])) + "]";
    }
    const auto offset = integer_of(*parts[2]);
    return offset && std::abs(*offset / second) < day / second ? text_or_none(*text + offset_text(*offset))
                                                               : std::nullopt;
}

text_or_none text_of_time(const value_tree& tree, const value& content) {
    const auto parts = content.what == kind::tuple ? tree.elements_of(content) : std::vector<const value*>();
    const auto count = parts.empty() ? std::nullopt : integer_of(*parts[0]);
    return count && *count >= 0 && *count < day ? text_or_none(clock_text(*count)) : std::nullopt;
}

/// As Python prints one: "1 day, 0:00:02".
text_or_none text_of_duration(const value_tree& /*tree*/, const value& content) {
    const auto count = integer_of(content);
    if (!count) {
        return std::nullopt;
    }
    const std::int64_t rest = (*count % day + day) % day;
    const std::int64_t days = *count / day - (*count % day < 0 ? 1 : 0);
    const std::string clock = clock_text(rest);
    return (days == 0 ? "" : fmt::format("{} day{}, ", days, std::abs(days) == 1 ? "" : "s")) +
           (clock.starts_with('0') ? clock.substr(1) : clock);
}

text_or_none text_of_uuid(const value_tree& tree, const value& content) {
    constexpr std::size_t bytes = 16;
    if (content.what != kind::bytes || tree.bytes_of(content).size() != bytes) {
        return std::nullopt;
    }
    std::string text;
    for (const char each : tree.bytes_of(content)) {
        text += fmt::format("{:02x}", static_cast<unsigned char>(each));
        if (text.size() == 8 || text.size() == 13 || text.size() == 18 || text.size() == 23) {
            text += '-';
        }
    }
    return text;
}

text_or_none text_of_decimal(const value_tree& tree, const value& content) {
    return content.what == kind::text ? text_or_none(tree.bytes_of(content)) : std::nullopt;
}

/// The array that has the stream of Arrow: the content, or an element of it.
const value* stream_in(const value_tree& tree, const value& content) {
    if (content.what == kind::array) {
        return &content;
    }
    if (content.what == kind::tuple) {
        for (const value* const each : tree.elements_of(content)) {
            if (each->what == kind::array) {
                return each;
            }
        }
    }
    return nullptr;
}

}  // namespace

std::optional<std::string> text_of_extended(const value_tree& tree, const value& of) {
    using reader = text_or_none (*)(const value_tree&, const value&);
    static constexpr std::pair<std::string_view, reader> readers[] = {
        {"datetime.date", &text_of_date}, {"datetime.datetime", &text_of_datetime},
        {"datetime.time", &text_of_time}, {"datetime.timedelta", &text_of_duration},
        {"uuid.UUID", &text_of_uuid},     {"decimal.Decimal", &text_of_decimal},
    };
    if (of.what != kind::extended) {
        return std::nullopt;
    }
    const std::string type = tree.type_text(of);
    for (const auto& [name, read] : readers) {
        if (name == type) {
            return read(tree, *tree.elements_of(of)[1]);
        }
    }
    return std::nullopt;
}

std::optional<json> form_of_frame(const value_tree& tree, const value& of) {
    if (of.what != kind::extended) {
        return std::nullopt;
    }
    const std::string type = tree.type_text(of);
    if (!type.starts_with("pandas.") && !type.starts_with("polars.") && !type.starts_with("pyarrow.")) {
        return std::nullopt;
    }
    const value* const stream = stream_in(tree, *tree.elements_of(of)[1]);
    if (stream == nullptr) {
        return std::nullopt;
    }
    const values::array& bytes = tree.array_of(*stream);
    const auto form = form_of_arrow_stream({reinterpret_cast<const char*>(bytes.data.get()), bytes.bytes});
    if (!form) {
        return std::nullopt;
    }
    json columns = json::array();
    for (const arrow_column& each : form->columns) {
        columns.push_back({{"name", each.name}, {"type", each.type}});
    }
    return json{{"rows", form->rows}, {"columns", std::move(columns)}};
}

}  // namespace holdfast_cli
