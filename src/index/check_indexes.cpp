#include <cstdint>
#include <string_view>

#include <holdfast/check_indexes.hpp>
#include <holdfast/hash_index.hpp>
#include <holdfast/ordered_index.hpp>

namespace holdfast {

namespace {

template <class Stored, class Index>
void check_if_one(manager& heap, const object_info& object, std::vector<std::string>& problems) {
    if (!object.is_type<Stored>()) {
        return;
    }
    const std::string begin = "index " + object.name() + ": ";
    try {
        for (const std::string& each : Index(heap, object.name()).check()) {
            problems.push_back(begin + each);
        }
    } catch (const error& broken) {
        if (broken.reason() != errc::corrupt) {
            throw;
        }
        problems.push_back(begin + broken.what());
    }
}

template <class Key, class Value>
void check_if_of(manager& heap, const object_info& object, std::vector<std::string>& problems) {
    check_if_one<stored_index<Key, Value>, ordered_index<Key, Value>>(heap, object, problems);
    check_if_one<stored_hash_index<Key, Value>, hash_index<Key, Value>>(heap, object, problems);
}

}  // namespace

std::vector<std::string> check_indexes(manager& heap) {
    std::vector<std::string> problems;
    const std::vector<object_info> objects(heap.named_begin(), heap.named_end());
    for (const object_info& each : objects) {
        check_if_of<std::uint64_t, std::uint64_t>(heap, each, problems);
        check_if_of<std::string_view, std::string_view>(heap, each, problems);
    }
    return problems;
}

}  // namespace holdfast
