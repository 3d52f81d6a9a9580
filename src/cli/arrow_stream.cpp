// Messages of Arrow's stream: 0xffffffff, a u32, how many bytes of metadata follow, the metadata, the body. The
// metadata is a table of FlatBuffers (Message.fbs, Schema.fbs), whose fields are found by their numbers.
#include "arrow_stream.hpp"

#include <array>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

namespace holdfast_cli {

namespace {

/// The bytes end, or an offset leads elsewhere.
struct broken {};

class flat_bytes {
public:
    explicit flat_bytes(std::string_view bytes) noexcept : bytes_(bytes) {}

    template <class T>
    [[nodiscard]] T number(std::uint64_t at) const {
        if (at > bytes_.size() || bytes_.size() - at < sizeof(T)) {
            throw broken();
        }
        T found{};
        std::memcpy(&found, bytes_.data() + at, sizeof found);
        return found;
    }
    [[nodiscard]] std::string_view part(std::uint64_t at, std::uint64_t size) const {
        if (at > bytes_.size() || bytes_.size() - at < size) {
            throw broken();
        }
        return bytes_.substr(at, size);
    }

private:
    std::string_view bytes_;
};

/// A table of FlatBuffers: a signed distance to its list of fields, and the fields.
class flat_table {
public:
    flat_table(flat_bytes bytes, std::uint64_t at)
        : bytes_(bytes),
          at_(at),
          fields_(static_cast<std::uint64_t>(static_cast<std::int64_t>(at) - bytes.number<std::int32_t>(at))) {}

    template <class T>
    [[nodiscard]] T number(unsigned field, T otherwise) const {
        const std::uint64_t place = place_of(field);
        return place == 0 ? otherwise : bytes_.number<T>(place);
    }
    [[nodiscard]] std::optional<flat_table> table(unsigned field) const {
        const std::uint64_t place = place_of(field);
        return place == 0 ? std::nullopt : std::optional(flat_table(bytes_, target(place)));
    }
    [[nodiscard]] std::string text(unsigned field) const {
        const std::uint64_t place = place_of(field);
        if (place == 0) {
            return {};
        }
        const std::uint64_t at = target(place);
        return std::string(bytes_.part(at + sizeof(std::uint32_t), bytes_.number<std::uint32_t>(at)));
    }
    template <class Function>
    void for_each_table(unsigned field, Function&& each) const {
        const std::uint64_t place = place_of(field);
        if (place == 0) {
            return;
        }
        const std::uint64_t at = target(place);
        const auto count = bytes_.number<std::uint32_t>(at);
        for (std::uint32_t i = 0; i < count; ++i) {
            each(flat_table(bytes_, target(at + (i + std::uint64_t{1}) * sizeof(std::uint32_t))));
        }
    }

private:
    /// 0 where the table has not that field.
    [[nodiscard]] std::uint64_t place_of(unsigned field) const {
        const std::uint64_t entry = 2 * sizeof(std::uint16_t) + field * sizeof(std::uint16_t);
        if (entry + sizeof(std::uint16_t) > bytes_.number<std::uint16_t>(fields_)) {
            return 0;
        }
        const auto distance = bytes_.number<std::uint16_t>(fields_ + entry);
        return distance == 0 ? 0 : at_ + distance;
    }
    [[nodiscard]] std::uint64_t target(std::uint64_t place) const {
        return place + bytes_.number<std::uint32_t>(place);
    }

    flat_bytes bytes_;
    std::uint64_t at_;
    std::uint64_t fields_;
};

std::string_view unit_of(std::int16_t unit) {
    constexpr std::array<std::string_view, 4> units{"s", "ms", "us", "ns"};
    return unit < 0 || unit > 3 ? "?" : units[static_cast<std::size_t>(unit)];
}

/// By the numbers of Schema.fbs.
constexpr std::array<std::string_view, 27> names_of_types{"?",
                                                          "null",
                                                          "int",
                                                          "float",
                                                          "binary",
                                                          "string",
                                                          "bool",
                                                          "decimal",
                                                          "date",
                                                          "time",
                                                          "timestamp",
                                                          "interval",
                                                          "list",
                                                          "struct",
                                                          "union",
                                                          "fixed_size_binary",
                                                          "fixed_size_list",
                                                          "map",
                                                          "duration",
                                                          "large_binary",
                                                          "large_string",
                                                          "large_list",
                                                          "run_end_encoded",
                                                          "binary_view",
                                                          "string_view",
                                                          "list_view",
                                                          "large_list_view"};

std::string type_of(const flat_table& field) {
    enum : std::uint8_t { integer = 2, real = 3, date = 8, time_of_day = 9, moment = 10, duration = 18 };
    const auto kind = field.number<std::uint8_t>(2, 0);
    const std::optional<flat_table> detail = field.table(3);
    std::string name(names_of_types[kind < names_of_types.size() ? kind : 0]);
    if (detail && kind == integer) {
        name = fmt::format("{}int{}", detail->number<std::uint8_t>(1, 0) != 0 ? "" : "u",
                           detail->number<std::int32_t>(0, 0));
    } else if (detail && kind == real) {
        const auto precision = detail->number<std::int16_t>(0, 0);
        name = precision == 0 ? "halffloat" : precision == 1 ? "float" : "double";
    } else if (detail && kind == date) {
        name = detail->number<std::int16_t>(0, 1) == 0 ? "date32[day]" : "date64[ms]";
    } else if (detail && (kind == time_of_day || kind == duration)) {
        name += fmt::format("[{}]", unit_of(detail->number<std::int16_t>(0, 1)));
    } else if (detail && kind == moment) {
        const std::string zone = detail->text(1);
        name += fmt::format("[{}{}]", unit_of(detail->number<std::int16_t>(0, 0)), zone.empty() ? "" : ", tz=" + zone);
    }
    return field.table(4) ? "dictionary<" + name + ">" : name;
}

}  // namespace

std::optional<arrow_form> form_of_arrow_stream(std::string_view bytes) {
    constexpr std::uint32_t begins_message = 0xffffffff;
    enum : std::uint8_t { of_schema = 1, of_rows = 3 };
    arrow_form form;
    bool has_schema = false;
    try {
        const flat_bytes stream(bytes);
        for (std::uint64_t at = 0; at < bytes.size();) {
            if (stream.number<std::uint32_t>(at) != begins_message) {
                return std::nullopt;
            }
            const auto size = stream.number<std::uint32_t>(at + sizeof(std::uint32_t));
            at += 2 * sizeof(std::uint32_t);
            if (size == 0) {
                break;
            }
            const flat_bytes metadata(stream.part(at, size));
            const flat_table message(metadata, metadata.number<std::uint32_t>(0));
            const auto kind = message.number<std::uint8_t>(1, 0);
            const std::optional<flat_table> header = message.table(2);
            if (header && kind == of_schema) {
                has_schema = true;
                header->for_each_table(1, [&](const flat_table& field) {
                    form.columns.push_back({field.text(0), type_of(field)});
                });
            } else if (header && kind == of_rows) {
                form.rows += header->number<std::uint64_t>(0, 0);
            }
            const auto body = message.number<std::uint64_t>(3, 0);
            static_cast<void>(stream.part(at + size, body));
            at += size + body;
        }
    } catch (const broken&) {
        return std::nullopt;
    }
    return has_schema ? std::optional(std::move(form)) : std::nullopt;
}

}  // namespace holdfast_cli
