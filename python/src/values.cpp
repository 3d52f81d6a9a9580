// contents: values of any kind: built, read, freed.
#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "contents.hpp"

namespace holdfast::python {

using values::array;
using values::blob;
using values::dict;
using values::dict_entry;
using values::object_tag;
using values::sequence;

namespace {

/// How deep a value may be nested that is read or built as a whole.
constexpr unsigned most_levels = 500;
constexpr std::size_t cache_line = 64;

[[noreturn]] void refuse_depth(const std::string& path) {
    throw error(errc::limit, path + ": a value is nested more than 500 levels deep",
                {path, "levels of a value", "more than 500", "at most 500", "read its parts one by one", 0});
}

value of_object(kind what, object_tag* object) {
    value made;
    made.what = what;
    made.object = object;
    return made;
}

}  // namespace

std::uint64_t hash_of(const document& key) noexcept {
    switch (key.what) {
        case kind::text:
        case kind::bytes:
        case kind::big_integer: return values::hash_of_bytes(key.what, key.bytes);
        case kind::tuple:
        case kind::extended: {
            std::uint64_t hash = values::hash_of_number(key.what, key.parts.size());
            for (const document& part : key.parts) {
                hash = values::hash_of_next(hash, hash_of(part));
            }
            return hash;
        }
        default: return values::hash_of_number(key.what, key.number);
    }
}

bool is_key(const document& key) noexcept {
    if (key.what == kind::tuple) {
        for (const document& part : key.parts) {
            if (!is_key(part)) {
                return false;
            }
        }
        return true;
    }
    if (key.what == kind::extended) {
        return key.can_be_key;
    }
    return key.what != kind::list && key.what != kind::dict && key.what != kind::array && key.what != kind::pickled;
}

value contents::build(const document& from) {
    switch (from.what) {
        case kind::text:
        case kind::bytes:
        case kind::big_integer:
        case kind::pickled: return build_blob(from);
        case kind::tuple:
        case kind::list:
        case kind::extended: return build_sequence(from);
        case kind::array: return build_array(*from.array, from.array->bytes);
        case kind::dict: {
            auto* const made = space.make<dict>();
            values::root none;  // a new dict has nothing to replace, except its own earlier values
            for (std::size_t i = 0; i + 1 < from.parts.size(); i += 2) {
                put(*made, from.parts[i], build(from.parts[i + 1]), none);
            }
            return of_object(kind::dict, &made->tag);
        }
        default: {
            value made;
            made.what = from.what;
            made.number = from.number;
            return made;
        }
    }
}

value contents::build_blob(const document& from) {
    auto* const made = space.make<blob>(from.bytes.size());
    made->tag.what = from.what;
    made->size = from.bytes.size();
    std::memcpy(made + 1, from.bytes.data(), from.bytes.size());
    return of_object(from.what, &made->tag);
}

value contents::build_sequence(const document& from) {
    auto* const made = space.make<sequence>();
    made->tag.what = from.what;
    if (!from.parts.empty()) {
        auto* const elements =
            static_cast<value*>(space.make_block(from.parts.size() * sizeof(value), alignof(value), true));
        for (std::size_t i = 0; i < from.parts.size(); ++i) {
            ::new (elements + i) value(build(from.parts[i]));
        }
        made->elements = elements;
        made->size = made->capacity = from.parts.size();
    }
    return of_object(from.what, &made->tag);
}

value contents::build_array(const array_content& from, std::uint64_t room) {
    auto* const made = space.make<array>(from.shape.size() * sizeof(std::uint64_t));
    made->bytes = from.bytes;
    made->dimensions = static_cast<std::uint32_t>(from.shape.size());
    made->order = from.order;
    std::memcpy(static_cast<void*>(made + 1), from.shape.data(), from.shape.size() * sizeof(std::uint64_t));
    auto* const type = space.make<blob>(from.type.size());
    type->tag.what = kind::text;
    type->size = from.type.size();
    std::memcpy(type + 1, from.type.data(), from.type.size());
    made->type = type;
    if (from.bytes != 0) {
        void* const data = space.make_block(room, cache_line, from.data == nullptr);
        if (from.data != nullptr) {
            std::memcpy(data, from.data, from.bytes);
        }
        made->data = static_cast<std::byte*>(data);
    }
    return of_object(kind::array, &made->tag);
}

document contents::read_array(const value& from, bool deep) const {
    const array& found = *space.object_of<array>(from);
    if (found.dimensions > array::most_dimensions) {
        space.refuse("dimensions of an array", std::to_string(found.dimensions),
                     "at most " + std::to_string(array::most_dimensions));
    }
    if (found.order > 1) {
        space.refuse("order of an array", std::to_string(found.order), "0 or 1");
    }
    space.expect_block(&found, sizeof(array) + found.dimensions * sizeof(std::uint64_t), "array");
    const blob* const type = found.type.get();
    space.expect_block(type, sizeof(blob), "type of an array");
    space.expect_block(type, sizeof(blob) + std::min(type->size, std::uint64_t{1} << 40), "type of an array");
    const std::uint64_t bytes = space.word(found.bytes);
    if (bytes != 0) {
        space.expect_block(found.data.get(), bytes, "data of an array");
    }
    document made;
    made.what = kind::array;
    made.object = const_cast<array*>(&found);
    made.array = std::make_shared<array_content>();
    made.array->type = std::string(type->view());
    made.array->shape.assign(found.shape(), found.shape() + found.dimensions);
    if (found.dimensions != 0) {
        made.array->shape[0] = space.word(*found.shape());
    }
    made.array->bytes = bytes;
    made.array->order = found.order;
    made.array->data = found.data.get();
    if (deep && bytes != 0) {
        const std::shared_ptr<void> copy(::operator new(bytes), [](void* of) { ::operator delete(of); });
        std::memcpy(copy.get(), found.data.get(), bytes);
        made.array->data = copy.get();
        made.array->owner = copy;
    }
    return made;
}

namespace {

/// Reads a value with all that is in it, or the place of a container; of an extended value, copies of its containers
/// and the places of its arrays. Each object has one owner, so that all of it has
/// no more bytes than the heap: without that bound, lists that hold one list twice would be read without an end.
class value_reader {
public:
    using array_function = std::function<document(const value& array, bool deep)>;

    value_reader(const contents& in, bool deep, array_function read_array)
        : in_(in), space_(in.space), deep_(deep), copies_arrays_(deep), read_array_(std::move(read_array)) {}

    [[nodiscard]] document read(const value& from, unsigned level) {
        if (level > most_levels) {
            refuse_depth(space_.heap().path());
        }
        document made;
        made.what = from.what;
        made.number = from.number;
        switch (from.what) {
            case kind::none:
            case kind::boolean:
            case kind::integer:
            case kind::real: break;
            case kind::text:
            case kind::bytes:
            case kind::big_integer:
            case kind::pickled: read_blob(from, made, level); break;
            case kind::list:
            case kind::tuple: read_sequence(from, made, level); break;
            case kind::dict: read_dict(from, made, level); break;
            case kind::array: return read_array(from, level);
            case kind::extended: read_extended(from, made, level); break;
            default:
                space_.refuse("kind of a value", std::to_string(static_cast<unsigned>(from.what)), "0 to 11, or 14");
        }
        return made;
    }

private:
    void take(std::uint64_t bytes) {
        if (!left_) {
            left_ = space_.heap().get_size();
        }
        if (bytes > *left_) {
            space_.refuse("owner of a value", "several", "one");
        }
        *left_ -= bytes;
    }
    void read_part(const value& part, document& into, unsigned level) {
        take(sizeof part);
        into.parts.push_back(read(part, level + 1));
    }
    void read_blob(const value& from, document& into, unsigned level) {
        const blob& found = *space_.object_of<blob>(from);
        space_.expect_block(&found, sizeof(blob) + std::min(found.size, std::uint64_t{1} << 46), "blob");
        if (level != 0) {
            take(found.size);
        }
        into.bytes = std::string(found.view());
    }
    void read_sequence(const value& from, document& into, unsigned level) {
        auto* const place = space_.object_of<sequence>(from);
        const bool is_whole = deep_ || from.what == kind::tuple;
        into.object = is_whole ? nullptr : place;
        const std::uint64_t size = is_whole ? space_.look(*place).size : 0;
        for (std::uint64_t i = 0; i < size; ++i) {
            read_part(in_.at(*place, i), into, level);
        }
    }
    void read_dict(const value& from, document& into, unsigned level) {
        auto* const place = space_.object_of<dict>(from);
        into.object = deep_ ? nullptr : place;
        if (deep_) {
            in_.for_each_entry(*place, [&](const dict_entry& entry, const dict_entry*) {
                read_part(entry.key, into, level);
                read_part(entry.content, into, level);
            });
        }
    }
    void read_extended(const value& from, document& into, unsigned level) {
        const bool was_deep = std::exchange(deep_, true);
        read_sequence(from, into, level);
        deep_ = was_deep;
        if (into.parts.size() != 2 || into.parts[0].what != kind::text) {
            space_.refuse("extended value", std::to_string(into.parts.size()) + " parts",
                          "the name of a type, and its content");
        }
    }
    [[nodiscard]] document read_array(const value& from, unsigned level) {
        document made = read_array_(from, copies_arrays_);
        if (copies_arrays_ && level != 0) {
            take(made.array->bytes);
        }
        return made;
    }

    const contents& in_;
    const workspace& space_;
    bool deep_;
    bool copies_arrays_;
    array_function read_array_;
    std::optional<std::uint64_t> left_;  ///< bytes; asked for where it is needed first
};

}  // namespace

document contents::read(const value& from, bool deep) const {
    return value_reader(*this, deep, [this](const value& array, bool whole) { return read_array(array, whole); })
        .read(from, 0);
}

namespace {

/// Calls `each` with every value that the object owns directly; the object is a dict, a list or a tuple.
void for_each_part(const contents& in, const value& of, const std::function<void(const value&)>& each) {
    if (of.what == kind::dict) {
        const auto* const place = in.space.object_of<dict>(of);
        in.for_each_entry(*place, [&each](const dict_entry& entry, const dict_entry*) {
            each(entry.key);
            each(entry.content);
        });
    } else if (sequence::holds(of.what)) {
        const auto* const place = in.space.object_of<sequence>(of);
        const std::uint64_t size = in.space.look(*place).size;
        for (std::uint64_t i = 0; i < size; ++i) {
            each(in.at(*place, i));
        }
    }
}

/// Every value below and with the given one, whatever its depth. Throws error(corrupt) where one is owned twice.
std::vector<value> all_of(const contents& in, const value& from) {
    std::vector<value> found{from};
    std::unordered_set<const void*> seen;
    for (std::size_t next = 0; next < found.size(); ++next) {
        const value at = found[next];
        if (at.object != nullptr && !seen.insert(at.object.get()).second) {
            in.space.refuse("owner of a value", "two", "one");
        }
        for_each_part(in, at, [&found](const value& part) { found.push_back(part); });
    }
    return found;
}

}  // namespace

void contents::drop(const value& unwanted, values::root& root) {
    if (unwanted.object == nullptr) {
        return;
    }
    const std::vector<value> all = all_of(*this, unwanted);
    if (is_held(all)) {
        auto& detached = *space.object_of<sequence>(space.look(root).detached);
        splice(detached, space.look(detached).size, 0, {unwanted}, root);
        return;
    }
    for (const value& each : all) {
        release(each);
    }
}

/// Frees the blocks of one value; the values that it owns are freed by themselves.
void contents::release(const value& unwanted) {
    switch (unwanted.what) {
        case kind::dict: {
            auto& gone = *space.object_of<dict>(unwanted);
            for_each_entry(gone, [this](const dict_entry&, const dict_entry* at) { space.free(at); });
            release_index(space.look(gone));
            break;
        }
        case kind::list:
        case kind::tuple:
        case kind::extended: {
            const sequence gone = space.look(*space.object_of<sequence>(unwanted));
            if (gone.capacity != 0) {
                space.free(elements_of(gone));
            }
            break;
        }
        case kind::array: {
            const array& gone = *space.object_of<array>(unwanted);
            space.free(gone.type.get());
            if (gone.bytes != 0) {
                space.free(gone.data.get());
            }
            break;
        }
        default: break;
    }
    if (unwanted.object != nullptr) {
        space.free(unwanted.object.get());
    }
}

bool contents::is_held(const std::vector<value>& parts) const {
    return std::any_of(parts.begin(), parts.end(),
                       [this](const value& part) { return part.object != nullptr && is_held_(part.object.get()); });
}

void contents::sweep(values::root& root, bool all) {
    auto& detached = *space.object_of<sequence>(space.look(root).detached);
    for (std::uint64_t i = space.look(detached).size; i-- > 0;) {
        const std::vector<value> parts = all_of(*this, at(detached, i));
        if (all || !is_held(parts)) {
            for (const value& part : parts) {
                release(part);
            }
            splice_out(detached, i);
        }
    }
}

bool contents::sweep_some(values::root& root, bool all, std::unordered_set<const void*>& free) {
    constexpr std::uint64_t most = 500;
    auto& detached = *space.object_of<sequence>(space.look(root).detached);
    std::uint64_t released = 0;
    for (std::uint64_t i = space.look(detached).size; i-- > 0;) {
        const value each = at(detached, i);
        if (!all && !free.contains(each.object.get()) && is_held(all_of(*this, each))) {
            continue;
        }
        free.insert(each.object.get());
        if (std::vector<value> parts; take_apart(each, most, parts)) {
            for (const value& part : parts) {
                free.insert(part.object.get());
            }
            splice(detached, space.look(detached).size, 0, parts, root);
            return false;
        }
        free.erase(each.object.get());
        release(each);
        splice_out(detached, i);
        if (++released == most) {
            return false;
        }
    }
    return true;
}

/// Takes elements or entries out of a container, until it has taken so many that have objects, or entries. False where
/// nothing was left.
bool contents::take_apart(const value& whole, std::uint64_t most, std::vector<value>& parts) {
    const auto take = [&parts](const value& part) {
        if (part.object != nullptr) {
            parts.push_back(part);
        }
    };
    if (sequence::holds(whole.what)) {
        sequence& from = space.change(*space.object_of<sequence>(whole));
        const bool has_any = from.size != 0;
        const value* const elements = elements_of(from);  // which this transaction does not change
        while (from.size != 0 && parts.size() < most) {
            take(elements[--from.size]);
        }
        return has_any;
    }
    std::uint64_t taken = 0;
    if (whole.what == kind::dict) {
        auto& from = *space.object_of<dict>(whole);
        for (; taken < most; ++taken) {
            auto* const first = const_cast<dict_entry*>(step(from, nullptr, false));
            if (first == nullptr) {
                break;
            }
            const dict_entry entry = expect_entry(first);
            take(entry.key);
            take(entry.content);
            unlink(from, *first);
            space.free(first);
        }
    }
    return taken != 0;
}

}  // namespace holdfast::python
