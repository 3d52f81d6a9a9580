#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "output.hpp"
#include "values.hpp"

namespace holdfast_cli {

namespace {

std::string_view name_of(holdfast::instance_kind kind) {
    switch (kind) {
        case holdfast::instance_kind::named: return "named";
        case holdfast::instance_kind::unique: return "unique";
        case holdfast::instance_kind::anonymous: return "anonymous";
    }
    return "unknown";
}

std::vector<holdfast::object_info> objects_of(const holdfast::manager& heap) {
    std::vector<holdfast::object_info> objects(heap.named_begin(), heap.named_end());
    objects.insert(objects.end(), heap.unique_begin(), heap.unique_end());
    objects.insert(objects.end(), heap.anonymous_begin(), heap.anonymous_end());
    return objects;
}

json as_json(const holdfast::object_info& object) {
    return {{"kind", name_of(object.kind())},
            {"name", object.name()},
            {"type", object.readable_type_name()},
            {"abi_type", object.type_name()},
            {"count", object.length()},
            {"element_size", object.type_size()},
            {"size", object.length() * object.type_size()},
            {"offset", object.offset()},
            {"description", object.description()}};
}

}  // namespace

int list(const arguments& given, unsigned depth) {
    const holdfast::manager heap(holdfast::open_read_only, given.heap);
    const std::vector<holdfast::object_info> objects = objects_of(heap);
    if (given.json) {
        json answer;
        answer["path"] = heap.path();
        answer["objects"] = json::array();
        for (const auto& object : objects) {
            answer["objects"].push_back(as_json(object));
        }
        answer["values"] = list_values(heap, depth);
        print(answer);
        return exit_sound;
    }
    std::vector<std::vector<std::string>> rows{{"KIND", "NAME", "COUNT", "SIZE", "TYPE", "DESCRIPTION"}};
    for (const auto& object : objects) {
        // The name of a unique object would repeat its type.
        rows.push_back({std::string(name_of(object.kind())),
                        object.kind() == holdfast::instance_kind::named ? printable(object.name()) : "-",
                        fmt::format("{}", object.length()), fmt::format("{}", object.length() * object.type_size()),
                        printable(object.readable_type_name()), printable(object.description())});
    }
    print_table(rows);
    print_values(heap, depth);
    return exit_sound;
}

}  // namespace holdfast_cli
