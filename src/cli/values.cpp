// ls, get and dump of what Python programs keep in a heap.
#include "values.hpp"

#include <bit>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "extended_values.hpp"
#include "value_tree.hpp"

namespace holdfast_cli {

namespace {

using values::kind;
using values::value;

std::string extent_text(const value_tree& tree, const value& of) {
    switch (of.what) {
        case kind::array: return fmt::format("[{}]", fmt::join(tree.shape_of(tree.array_of(of)), ", "));
        case kind::text:
        case kind::bytes: return fmt::format("{}", tree.bytes_of(of).size());
        case kind::dict:
        case kind::list:
        case kind::tuple: return fmt::format("{}", tree.length_of(of));
        case kind::boolean: return of.number != 0 ? "true" : "false";
        case kind::integer: return fmt::format("{}", of.integer());
        case kind::real: return fmt::format("{}", of.real());
        case kind::extended: break;
        default: return "";
    }
    if (const auto form = form_of_frame(tree, of)) {
        return fmt::format("[{}, {}]", (*form)["rows"].get<std::uint64_t>(), (*form)["columns"].size());
    }
    return printable(text_of_extended(tree, of).value_or(""));
}

using visitor = std::function<void(const std::vector<std::string>& path, const value& at)>;

/// Calls `visit` with what lies up to `depth` levels below, in order.
void for_each_below(const value_tree& tree, const value& of, unsigned depth, std::vector<std::string>& path,
                    const visitor& visit) {
    const auto step = [&](std::string key, const value& content) {
        path.push_back(std::move(key));
        visit(path, content);
        if (depth > 1) {
            for_each_below(tree, content, depth - 1, path, visit);
        }
        path.pop_back();
    };
    if (of.what == kind::dict) {
        tree.for_each_entry(of, [&](const value& key, const value& content) {
            step(tree.key_text(key), content);
            return true;
        });
    } else if (of.what == kind::list || of.what == kind::tuple) {
        std::size_t index = 0;
        for (const value* const each : tree.elements_of(of)) {
            step(fmt::format("{}", index++), *each);
        }
    }
}

std::string hexadecimal(std::string_view bytes) {
    std::string text;
    for (const char each : bytes) {
        text += fmt::format("{:02x}", static_cast<unsigned char>(each));
    }
    return text;
}

template <class Number>
json number_at(const char* place) {
    Number found{};
    std::memcpy(&found, place, sizeof found);
    return found;
}

using element_reader = json (*)(const char*);

/// How an element of this type is read; null for types that are shown as bytes.
element_reader reader_of(std::string_view type) {
    static constexpr std::pair<std::string_view, element_reader> known[] = {
        {"|b1", [](const char* place) { return json(*place != 0); }},
        {"|i1", &number_at<std::int8_t>},
        {"|u1", &number_at<std::uint8_t>},
        {"<i2", &number_at<std::int16_t>},
        {"<u2", &number_at<std::uint16_t>},
        {"<i4", &number_at<std::int32_t>},
        {"<u4", &number_at<std::uint32_t>},
        {"<i8", &number_at<std::int64_t>},
        {"<u8", &number_at<std::uint64_t>},
        {"<f4", &number_at<float>},
        {"<f8", &number_at<double>},
    };
    for (const auto& [name, reader] : known) {
        if (name == type) {
            return reader;
        }
    }
    return nullptr;
}

/// The elements from an index on, as nested lists.
class array_printer {
public:
    array_printer(const values::array& of, std::vector<std::uint64_t> shape, std::uint64_t width, element_reader read)
        : of_(of), shape_(std::move(shape)), width_(width), read_(read) {
        std::uint64_t step = width_;
        strides_.resize(shape_.size());
        for (std::size_t i = 0; i < shape_.size(); ++i) {
            const std::size_t at = of_.order == 0 ? shape_.size() - 1 - i : i;
            strides_[at] = step;
            step *= shape_[at];
        }
    }
    [[nodiscard]] json print(std::size_t dimension = 0, std::uint64_t offset = 0) const {
        if (dimension == shape_.size()) {
            return read_(reinterpret_cast<const char*>(of_.data.get()) + offset);
        }
        json list = json::array();
        for (std::uint64_t i = 0; i < shape_[dimension]; ++i) {
            list.push_back(print(dimension + 1, offset + i * strides_[dimension]));
        }
        return list;
    }

private:
    const values::array& of_;
    std::vector<std::uint64_t> shape_;
    std::vector<std::uint64_t> strides_;
    std::uint64_t width_;
    element_reader read_;
};

json array_json(const value_tree& tree, const value& of) {
    const values::array& found = tree.array_of(of);
    const std::vector<std::uint64_t> shape = tree.shape_of(found);
    const std::string type = tree.type_text(of);
    const element_reader reader = reader_of(type);
    std::uint64_t count = 1;
    bool is_whole = reader != nullptr;
    const std::uint64_t width = reader == nullptr ? 0 : static_cast<std::uint64_t>(type[2] - '0');
    for (const std::uint64_t each : shape) {
        is_whole = is_whole && !__builtin_mul_overflow(count, each, &count);
    }
    json made{{"type", type}, {"shape", shape}};
    if (is_whole && count <= found.bytes / width && count * width == found.bytes) {
        made["elements"] = count == 0 ? json::array() : array_printer(found, shape, width, reader).print();
    } else {
        made["bytes"] = found.bytes;
    }
    return made;
}

json value_json(const value_tree& tree, const value& of, unsigned level);

json dict_json(const value_tree& tree, const value& of, unsigned level) {
    json by_name = json::object();
    json pairs = json::array();
    bool is_named = true;
    tree.for_each_entry(of, [&](const value& key, const value& content) {
        is_named = is_named && key.what == kind::text;
        json each = value_json(tree, content, level + 1);
        pairs.push_back(json::array({value_json(tree, key, level + 1), std::move(each)}));
        return true;
    });
    if (!is_named) {
        return {{"entries", std::move(pairs)}};
    }
    for (json& pair : pairs) {
        by_name.push_back({pair[0].get<std::string>(), std::move(pair[1])});
    }
    return by_name;
}

/// Of a frame its form alone: its bytes are Arrow's, which nobody reads as numbers.
json extended_json(const value_tree& tree, const value& of, unsigned level) {
    json made{{"type", tree.type_text(of)}};
    if (const auto form = form_of_frame(tree, of)) {
        made.update(*form);
        made["bytes"] = tree.size_of(of);
    } else if (const auto text = text_of_extended(tree, of)) {
        made["value"] = *text;
    } else {
        made["value"] = value_json(tree, *tree.elements_of(of)[1], level + 1);
    }
    return made;
}

json value_json(const value_tree& tree, const value& of, unsigned level) {
    if (level > value_tree::most_levels) {
        throw std::runtime_error("a value is nested more than 500 levels deep: get its parts one by one");
    }
    switch (of.what) {
        case kind::none: return nullptr;
        case kind::boolean: return of.number != 0;
        case kind::integer: return of.integer();
        case kind::real: return of.real();
        case kind::text: return std::string(tree.bytes_of(of));
        case kind::bytes: return {{"bytes", hexadecimal(tree.bytes_of(of))}};
        case kind::big_integer: return {{"integer", hexadecimal(tree.bytes_of(of))}};
        case kind::pickled: return {{"pickled", hexadecimal(tree.bytes_of(of))}};
        case kind::array: return array_json(tree, of);
        case kind::dict: return dict_json(tree, of, level);
        case kind::extended: return extended_json(tree, of, level);
        default: break;
    }
    json list = json::array();
    for (const value* const each : tree.elements_of(of)) {
        list.push_back(value_json(tree, *each, level + 1));
    }
    return list;
}

}  // namespace

void print_values(const holdfast::manager& heap, unsigned depth) {
    const value_tree tree(heap);
    if (!tree.is_there() || depth == 0) {
        return;
    }
    std::vector<std::vector<std::string>> rows{{"KEY", "VALUE OF TYPE", "LENGTH OR VALUE", "SIZE"}};
    std::vector<std::string> path;
    for_each_below(tree, tree.entries(), depth, path, [&](const std::vector<std::string>& at, const value& found) {
        rows.push_back({std::string(2 * (at.size() - 1), ' ') + printable(at.back()), printable(tree.type_text(found)),
                        extent_text(tree, found), fmt::format("{}", tree.size_of(found))});
    });
    fmt::print("\n");
    print_table(rows);
}

json list_values(const holdfast::manager& heap, unsigned depth) {
    const value_tree tree(heap);
    json listed = json::array();
    std::vector<std::string> path;
    if (tree.is_there() && depth != 0) {
        for_each_below(tree, tree.entries(), depth, path, [&](const std::vector<std::string>& at, const value& found) {
            json each{{"path", at}, {"type", tree.type_text(found)}, {"size", tree.size_of(found)}};
            if (found.what == kind::array) {
                each["shape"] = tree.shape_of(tree.array_of(found));
            } else if (found.what == kind::dict || found.what == kind::list || found.what == kind::tuple) {
                each["length"] = tree.length_of(found);
            }
            listed.push_back(std::move(each));
        });
    }
    return listed;
}

int get(const arguments& given, const std::vector<std::string>& keys) {
    const holdfast::manager heap(holdfast::open_read_only, given.heap);
    const value_tree tree(heap);
    if (!tree.is_there()) {
        throw std::runtime_error(given.heap +
                                 ": no Python program has written to the heap; `holdfast ls` says what is there");
    }
    const value* const found = tree.find(keys);
    if (found == nullptr) {
        throw std::runtime_error(fmt::format("{}: found nothing under \"{}\"; `holdfast ls --depth {}` shows the keys",
                                             given.heap, fmt::join(keys, "\" \""), keys.size()));
    }
    print(value_json(tree, *found, 0));
    return exit_sound;
}

}  // namespace holdfast_cli
