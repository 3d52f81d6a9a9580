#include "value_tree.hpp"

#include <fmt/format.h>

#include "extended_values.hpp"
#include "output.hpp"

namespace holdfast_cli {

using values::kind;
using values::value;

value_tree::value_tree(const holdfast::manager& heap) : heap_(&heap), left_(8 * (heap.get_size() / sizeof(value) + 1)) {
    try {
        root_ = values::find_root(heap);
    } catch (const holdfast::error& failure) {
        if (failure.reason() != holdfast::errc::type_mismatch) {  // of another version: the objects are shown
            throw;
        }
    }
    if (root_ != nullptr && root_->entries.object == nullptr) {
        root_ = nullptr;
    }
}

void value_tree::refuse(const std::string& field, const std::string& found, const std::string& expected) const {
    throw holdfast::error(holdfast::errc::corrupt,
                          fmt::format("{}: {}: found {}, expected {}", heap_->path(), field, found, expected),
                          {heap_->path(), field, found, expected, "restore the heap from a snapshot", 0});
}

void value_tree::expect_block(const void* address, std::uint64_t bytes, const char* field) const {
    std::uint64_t usable = 0;
    try {
        usable = address == nullptr ? 0 : heap_->usable_size(address);
    } catch (const holdfast::error& failure) {
        if (failure.reason() != holdfast::errc::bad_address) {
            throw;
        }
        refuse(field, "a pointer to no block", "a pointer to an allocated block of this heap");
    }
    if (usable < bytes) {
        refuse(field, fmt::format("a block of {} bytes", usable), fmt::format("at least {}", bytes));
    }
}

void value_tree::count(std::uint64_t values) const {
    if (left_ < values) {
        refuse("owner of a value", "several", "one");
    }
    left_ -= values;
}

template <class T>
const T& value_tree::object(const value& of) const {
    count(1);
    const void* const place = of.object.get();
    expect_block(place, sizeof(T), "object of a value");
    const auto& tag = *static_cast<const values::object_tag*>(place);
    if (!T::holds(of.what) || !tag.is(of.what)) {
        refuse("object of a value", fmt::format("kind {}", static_cast<unsigned>(tag.what)),
               fmt::format("kind {} with its mark", static_cast<unsigned>(of.what)));
    }
    return *static_cast<const T*>(place);
}

const value& value_tree::entries() const { return root_->entries; }

const values::array& value_tree::array_of(const value& of) const {
    const auto& found = object<values::array>(of);
    if (found.dimensions > values::array::most_dimensions || found.order > 1) {
        refuse("dimensions of an array", fmt::format("{}", found.dimensions),
               fmt::format("at most {}", values::array::most_dimensions));
    }
    expect_block(&found, sizeof found + found.dimensions * sizeof(std::uint64_t), "array");
    const values::blob* const type = found.type.get();
    expect_block(type, sizeof *type, "type of an array");
    expect_block(type, sizeof *type + std::min(type->size, std::uint64_t{1} << 40U), "type of an array");
    if (found.bytes != 0) {
        expect_block(found.data.get(), found.bytes, "data of an array");
    }
    return found;
}

std::vector<std::uint64_t> value_tree::shape_of(const values::array& of) const {
    return {of.shape(), of.shape() + of.dimensions};
}

std::string_view value_tree::bytes_of(const value& of) const {
    const auto& found = object<values::blob>(of);
    expect_block(&found, sizeof found + std::min(found.size, std::uint64_t{1} << 46U), "blob");
    return found.view();
}

std::uint64_t value_tree::length_of(const value& of) const {
    return of.what == kind::dict ? object<values::dict>(of).size : object<values::sequence>(of).size;
}

void value_tree::for_each_entry(const value& of,
                                const std::function<bool(const value& key, const value& content)>& each) const {
    const auto& found = object<values::dict>(of);
    std::uint64_t passed = 0;
    for (const values::dict_entry* at = found.first.get(); at != nullptr; at = at->following.get()) {
        count(1);
        expect_block(at, sizeof *at, "entry of a dict");
        if (!at->tag.is(kind::entry) || ++passed > found.size) {
            refuse("entries of a dict", "a block of another kind, or too many", fmt::format("{} entries", found.size));
        }
        if (!each(at->key, at->content)) {
            return;
        }
    }
}

std::vector<const value*> value_tree::elements_of(const value& of) const {
    const auto& found = object<values::sequence>(of);
    if (found.size > found.capacity || found.capacity > (std::uint64_t{1} << 46U) / sizeof(value)) {
        refuse("size of a list", fmt::format("{}", found.size), "at most its capacity");
    }
    std::vector<const value*> elements;
    if (found.size != 0) {
        count(found.size);
        const value* const first = found.elements.get();
        expect_block(first, found.capacity * sizeof(value), "elements of a list");
        elements.reserve(found.size);
        for (std::uint64_t i = 0; i < found.size; ++i) {
            elements.push_back(first + i);
        }
    }
    return elements;
}

std::string value_tree::key_text(const value& key) const {
    switch (key.what) {
        case kind::text: return std::string(bytes_of(key));
        case kind::bytes: return fmt::format("b'{}'", bytes_of(key));
        case kind::integer: return fmt::format("{}", key.integer());
        case kind::real: return fmt::format("{}", key.real());
        case kind::none: return "None";
        case kind::tuple: {
            std::string text;
            for (const value* const each : elements_of(key)) {
                text += (text.empty() ? "" : ", ") +
                        (each->what == kind::text ? fmt::format("'{}'", bytes_of(*each)) : key_text(*each));
            }
            return "(" + text + ")";
        }
        case kind::extended: {
            if (const auto text = text_of_extended(*this, key)) {
                return fmt::format("{}({})", type_text(key), *text);
            }
            const auto parts = elements_of(key);
            return parts.size() == 2 ? fmt::format("{}({})", type_text(key), key_text(*parts[1])) : type_text(key);
        }
        default: return type_text(key);
    }
}

std::string value_tree::type_text(const value& of) const {
    switch (of.what) {
        case kind::none: return "None";
        case kind::boolean: return "bool";
        case kind::integer:
        case kind::big_integer: return "int";
        case kind::real: return "float";
        case kind::text: return "str";
        case kind::bytes: return "bytes";
        case kind::tuple: return "tuple";
        case kind::list: return "list";
        case kind::dict: return "dict";
        case kind::pickled: return "pickled";
        case kind::array: {
            std::string type(array_of(of).type->view());
            return type.size() > 2 && type.front() == '\'' && type.back() == '\'' ? type.substr(1, type.size() - 2)
                                                                                  : type;
        }
        case kind::extended: {
            const auto parts = elements_of(of);
            if (parts.size() != 2 || parts[0]->what != kind::text) {
                refuse("extended value", fmt::format("{} parts", parts.size()), "the name of a type, and its content");
            }
            return std::string(bytes_of(*parts[0]));
        }
        default: break;
    }
    refuse("kind of a value", fmt::format("{}", static_cast<unsigned>(of.what)), "0 to 11, or 14");
}

std::uint64_t value_tree::size_of(const value& of) const { return size_below(of, 0); }

std::uint64_t value_tree::size_below(const value& of, unsigned level) const {
    if (level > most_levels) {
        return 0;
    }
    switch (of.what) {
        case kind::none:
        case kind::boolean:
        case kind::integer:
        case kind::real: return sizeof of.number;
        case kind::text:
        case kind::bytes:
        case kind::big_integer:
        case kind::pickled: return bytes_of(of).size();
        case kind::array: return array_of(of).bytes;
        case kind::dict: {
            std::uint64_t sum = 0;
            for_each_entry(of, [&](const value& key, const value& content) {
                sum += size_below(key, level + 1) + size_below(content, level + 1);
                return true;
            });
            return sum;
        }
        default: break;
    }
    std::uint64_t sum = 0;
    for (const value* const each : elements_of(of)) {
        sum += size_below(*each, level + 1);
    }
    return sum;
}

const value* value_tree::child(const value& of, const std::string& key) const {
    const value* found = nullptr;
    if (of.what == kind::dict) {
        for_each_entry(of, [&](const value& name, const value& content) {
            const bool is_it = key_text(name) == key;
            found = is_it ? &content : nullptr;
            return !is_it;
        });
    } else if (values::sequence::holds(of.what)) {
        const auto elements = elements_of(of);
        for (std::size_t i = 0; i < elements.size(); ++i) {
            if (fmt::format("{}", i) == key) {
                found = elements[i];
            }
        }
    }
    return found;
}

const value* value_tree::find(const std::vector<std::string>& keys) const {
    const value* at = &entries();
    for (const std::string& key : keys) {
        at = child(*at, key);
        if (at == nullptr) {
            break;
        }
    }
    return at;
}

}  // namespace holdfast_cli
