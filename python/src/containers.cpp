// The classes behind holdfast.Dict and holdfast.List: a held object, a cursor over a dict, and the memory of an array.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "convert.hpp"

namespace nb = nanobind;

namespace holdfast::python {

using values::dict;
using values::dict_entry;
using values::sequence;

namespace {

using held = std::shared_ptr<held_object>;

/// Copies the arrays that an open transaction has made, since its end may take them back.
void copy_made_arrays(session& of, contents& from, document& in) {
    for (document& part : in.parts) {  // of a tuple, or of an extended value
        copy_made_arrays(of, from, part);
    }
    if (in.what == kind::array && of.has_made(in.object)) {
        value place;
        place.what = kind::array;
        place.object = static_cast<values::object_tag*>(in.object);
        in = from.read(place, true);
    }
}

/// The value that is found in `in` under `key`, or at `index`.
document read_for_python(const held& in, contents& from, const value& place, const document* key, std::uint64_t index) {
    session& of = *in->owner();
    document made = from.read(place, false);
    if (of.in_transaction()) {
        copy_made_arrays(of, from, made);
    }
    const bool is_held = made.object != nullptr || !made.parts.empty();
    hold_parts(made, of, is_held && of.follows() ? in->place_within(key, index) : nullptr);
    return made;
}

[[noreturn]] void raise_key_error(nb::handle key) {
    const nb::object made = nb::handle(PyExc_KeyError)(key);  // given the key, PyErr_SetObject would unpack a tuple
    PyErr_SetObject(PyExc_KeyError, made.ptr());
    throw nb::python_error();
}

/// Stores of this size and more let go of the interpreter's lock.
constexpr std::uint64_t long_store = 1 << 20;
bool is_long(const document& content) { return content.what == kind::array && content.array->bytes >= long_store; }

nb::object get_item(const held& in, nb::handle key, nb::handle fallback) {
    const document wanted = to_key(key);
    session& of = *in->owner();
    document made;
    bool is_there = false;
    guarded(of, false, [&] {
        contents& from = of.reading();
        if (const auto found = from.find(in->as<dict>(), wanted)) {
            made = read_for_python(in, from, *found, &wanted, 0);
            is_there = true;
        }
    });
    return is_there ? to_python(made) : nb::borrow(fallback);
}

bool contains(const held& in, nb::handle key) {
    const document wanted = to_key(key);
    session& of = *in->owner();
    bool is_there = false;
    guarded(of, false, [&] { is_there = of.reading().find(in->as<dict>(), wanted).has_value(); });
    return is_there;
}

void set_item(const held& in, nb::handle key, nb::handle content) {
    const document place = to_key(key);
    const document stored = to_document(content);
    session& of = *in->owner();
    guarded(of, of.waits_for_turn() || is_long(stored), [&] {
        of.write([&](contents& within) { within.put(in->as<dict>(), place, within.build(stored), of.root()); });
    });
}

void delete_item(const held& in, nb::handle key) {
    const document unwanted = to_key(key);
    session& of = *in->owner();
    bool was_there = false;
    guarded(of, of.waits_for_turn(), [&] {
        of.write([&](contents& within) { was_there = within.erase(in->as<dict>(), unwanted, of.root()); });
    });
    if (!was_there) {
        raise_key_error(key);
    }
}

/// Removes an entry and returns a copy of its value, in one step among threads.
nb::object pop_item(const held& in, nb::handle key, nb::handle fallback) {
    const document unwanted = to_key(key);
    session& of = *in->owner();
    document made;
    bool was_there = false;
    guarded(of, of.waits_for_turn(), [&] {
        of.write([&](contents& within) {
            if (const auto found = within.find(in->as<dict>(), unwanted)) {
                made = within.read(*found, true);
                was_there = within.erase(in->as<dict>(), unwanted, of.root());
            }
        });
    });
    return was_there ? to_python(made) : nb::borrow(fallback);
}

/// Removes the last entry and returns key and value, in one step among threads.
nb::object pop_last(const held& in) {
    session& of = *in->owner();
    document key;
    document made;
    bool was_there = false;
    guarded(of, of.waits_for_turn(), [&] {
        of.write([&](contents& within) {
            if (const dict_entry* const last = within.step(in->as<dict>(), nullptr, true); last != nullptr) {
                const dict_entry entry = within.expect_entry(last);
                key = within.read(entry.key, true);
                made = within.read(entry.content, true);
                was_there = within.erase(in->as<dict>(), key, of.root());
            }
        });
    });
    if (!was_there) {
        raise_key_error(nb::str("popitem(): dictionary is empty"));
    }
    return nb::make_tuple(to_python(key), to_python(made));
}

/// The value under a key; stores one there first where there is none, in one step among threads.
nb::object set_default(const held& in, nb::handle key, nb::handle content) {
    const document place = to_key(key);
    const document stored = to_document(content);
    session& of = *in->owner();
    document made;
    guarded(of, of.waits_for_turn() || is_long(stored), [&] {
        if (!of.reading().find(in->as<dict>(), place)) {
            of.write([&](contents& within) {
                if (!within.find(in->as<dict>(), place)) {  // nor has another process stored one meanwhile
                    within.put(in->as<dict>(), place, within.build(stored), of.root());
                }
            });
        }
        contents& from = of.reading();
        made = read_for_python(in, from, from.find(in->as<dict>(), place).value(), &place, 0);
    });
    return to_python(made);
}

/// Type, shape and order of the array under a key; None for another value.
nb::object describe_array_at(const held& in, nb::handle key) {
    const document wanted = to_key(key);
    session& of = *in->owner();
    document made;
    bool is_there = false;
    guarded(of, false, [&] {
        contents& from = of.reading();
        if (const auto found = from.find(in->as<dict>(), wanted)) {
            made = from.read(*found, false);
            is_there = true;
        }
    });
    if (!is_there) {
        raise_key_error(key);
    }
    if (made.what != kind::array) {
        return nb::none();
    }
    nb::list shape;
    for (const std::uint64_t each : made.array->shape) {
        shape.append(each);
    }
    return nb::make_tuple(shown(made.array->type), nb::tuple(shape), made.array->order);
}

/// Without `to`, the rows are added; else they only say of which type and shape the array is.
void resize_array(const held& in, nb::handle key, nb::handle rows, std::uint64_t bytes_of_row, nb::handle to) {
    const document place = to_key(key);
    const document stored = to_document(rows);
    if (stored.what != kind::array) {
        throw nb::type_error("the rows of an array are an array");
    }
    array_change change{.rows = *stored.array, .bytes_of_row = bytes_of_row, .to = std::nullopt};
    if (!to.is_none()) {
        change.to = nb::cast<std::uint64_t>(to);
        change.rows.data = nullptr;
    }
    session& of = *in->owner();
    guarded(of, of.waits_for_turn() || change.to.has_value() || is_long(stored), [&] {
        of.write([&](contents& within) { within.resize_array(in->as<dict>(), place, change, of.root()); });
    });
}

void clear(const held& in) {
    session& of = *in->owner();
    guarded(of, true, [&] {
        of.write([&](contents& within) {
            if (in->what() == kind::dict) {
                within.clear(in->as<dict>(), of.root());
            } else {
                auto& list = in->as<sequence>();
                within.splice(list, 0, within.space.look(list).size, {}, of.root());
            }
        });
    });
}

std::uint64_t length(const held& of_object) {
    session& of = *of_object->owner();
    std::uint64_t size = 0;
    guarded(of, false, [&] {
        const contents& from = of.reading();
        size = of_object->what() == kind::dict ? from.space.look(of_object->as<dict>()).size
                                               : from.space.look(of_object->as<sequence>()).size;
    });
    return size;
}

nb::object to_plain(const held& from) {
    session& of = *from->owner();
    document made;
    guarded(of, false, [&] {
        value place;
        place.what = from->what();
        place.object = static_cast<values::object_tag*>(from->object());
        made = of.reading().read(place, true);
    });
    return to_python(made);
}

/// Iterates over a dict, which must not change its keys meanwhile.
class cursor {
public:
    enum class yields { keys, contents, items };

    cursor(held over, yields what, bool backwards) : over_(std::move(over)), what_(what), backwards_(backwards) {
        session& of = *over_->owner();
        guarded(of, false, [&] {
            generation_ = of.reading().space.look(over_->as<dict>()).generation;
            aborts_ = of.aborts();
        });
    }

    nb::object next() {
        session& of = *over_->owner();
        document key;
        document content;
        bool has_changed = false;
        guarded(of, false, [&] {
            contents& from = of.reading();
            const dict& header = from.space.look(over_->as<dict>());
            has_changed = header.generation != generation_ || of.aborts() != aborts_;
            if (has_changed || is_over_) {
                return;
            }
            at_ = from.step(over_->as<dict>(), at_, backwards_);
            is_over_ = at_ == nullptr;
            if (is_over_) {
                return;
            }
            from.expect_step(++passed_, header.size);
            const dict_entry entry = from.expect_entry(at_);
            if (what_ != yields::contents || of.follows()) {
                key = from.read(entry.key, false);
            }
            if (what_ != yields::keys) {
                content = read_for_python(over_, from, entry.content, &key, 0);
            }
        });
        if (has_changed) {
            PyErr_SetString(PyExc_RuntimeError, "the dict has changed its keys during the iteration");
            throw nb::python_error();
        }
        if (is_over_) {
            throw nb::stop_iteration();
        }
        switch (what_) {
            case yields::keys: return to_python(key);
            case yields::contents: return to_python(content);
            default: return nb::make_tuple(to_python(key), to_python(content));
        }
    }

private:
    held over_;
    yields what_;
    bool backwards_;
    std::uint64_t generation_ = 0;
    std::uint64_t aborts_ = 0;
    std::uint64_t passed_ = 0;
    const dict_entry* at_ = nullptr;
    bool is_over_ = false;
};

nb::object list_get(const held& in, std::uint64_t index) {
    session& of = *in->owner();
    document made;
    bool is_there = false;
    guarded(of, false, [&] {
        contents& from = of.reading();
        auto& list = in->as<sequence>();
        is_there = index < from.space.look(list).size;
        if (is_there) {
            made = read_for_python(in, from, from.at(list, index), nullptr, index);
        }
    });
    if (!is_there) {
        throw nb::index_error("list index out of range");
    }
    return to_python(made);
}

void list_set(const held& in, std::uint64_t index, nb::handle content) {
    const document stored = to_document(content);
    session& of = *in->owner();
    bool is_there = false;
    guarded(of, of.waits_for_turn() || is_long(stored), [&] {
        of.write([&](contents& within) {
            auto& list = in->as<sequence>();
            is_there = index < within.space.look(list).size;
            if (is_there) {
                within.assign(list, index, within.build(stored), of.root());
            }
        });
    });
    if (!is_there) {
        throw nb::index_error("list assignment index out of range");
    }
}

/// Replaces [begin, end) by the elements of `added`; begin and end are cut to the length of the list.
void list_splice(const held& in, std::uint64_t begin, std::uint64_t end, nb::list added) {
    std::vector<document> stored;
    for (const nb::handle each : added) {
        stored.push_back(to_document(each));
    }
    session& of = *in->owner();
    guarded(of, of.waits_for_turn(), [&] {
        of.write([&](contents& within) {
            auto& list = in->as<sequence>();
            const std::uint64_t size = within.space.look(list).size;
            const std::uint64_t from = std::min(begin, size);
            std::vector<value> built;
            for (const document& each : stored) {
                built.push_back(within.build(each));
            }
            within.splice(list, from, std::max(from, std::min(end, size)) - from, built, of.root());
        });
    });
}

/// Removes an element and returns a copy of it, in one step among threads. Negative indexes count from the end.
nb::object list_pop(const held& in, std::int64_t index) {
    session& of = *in->owner();
    document made;
    bool was_there = false;
    guarded(of, of.waits_for_turn(), [&] {
        of.write([&](contents& within) {
            auto& list = in->as<sequence>();
            const auto size = static_cast<std::int64_t>(within.space.look(list).size);
            const std::int64_t place = index < 0 ? index + size : index;
            was_there = place >= 0 && place < size;
            if (was_there) {
                made = within.read(within.at(list, static_cast<std::uint64_t>(place)), true);
                within.splice(list, static_cast<std::uint64_t>(place), 1, {}, of.root());
            }
        });
    });
    if (!was_there) {
        throw nb::index_error("pop index out of range");
    }
    return to_python(made);
}

int get_buffer(PyObject* exporter, Py_buffer* view, int flags) {
    const auto& self = *nb::inst_ptr<array_buffer>(exporter);
    return PyBuffer_FillInfo(view, exporter, self.data, static_cast<Py_ssize_t>(self.bytes), self.writable ? 0 : 1,
                             flags);
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)}, {0, nullptr}};

}  // namespace

void bind_containers(nb::module_& into) {
    nb::class_<array_buffer>(into, "ArrayBuffer", nb::type_slots(buffer_slots))
        .def_prop_ro("writable", [](const array_buffer& of) { return of.writable; })
        .def_prop_ro("turn", [](const array_buffer& of) { return of.turn; });
    nb::class_<array_description>(into, "ArrayDescription")
        .def(
            "__init__",
            [](array_description* made, std::string type, std::vector<std::uint64_t> shape, std::uint32_t order,
               nb::object buffer) {
                ::new (made) array_description{std::move(type), std::move(shape), order, std::move(buffer)};
            },
            nb::arg("type"), nb::arg("shape"), nb::arg("order"), nb::arg("buffer"));
    nb::class_<extended_value>(into, "ExtendedValue")
        .def(
            "__init__",
            [](extended_value* made, std::string name, nb::object content, bool can_be_key) {
                ::new (made) extended_value{std::move(name), std::move(content), can_be_key};
            },
            nb::arg("name"), nb::arg("content").none(), nb::arg("can_be_key"));
    nb::class_<pickled_bytes>(into, "PickledBytes")
        .def(
            "__init__",
            [](pickled_bytes* made, const nb::bytes& bytes) {
                ::new (made) pickled_bytes{std::string(bytes.c_str(), bytes.size())};
            },
            nb::arg("bytes"));
    nb::class_<cursor>(into, "Cursor")
        .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
        .def("__next__", &cursor::next);
    nb::class_<held_object>(into, "Held")
        .def("get", &get_item, nb::arg("key").none(), nb::arg("fallback").none())
        .def("contains", &contains, nb::arg("key").none())
        .def("set", &set_item, nb::arg("key").none(), nb::arg("content").none())
        .def("delete", &delete_item, nb::arg("key").none())
        .def("pop", &pop_item, nb::arg("key").none(), nb::arg("fallback").none())
        .def("pop_last", &pop_last)
        .def("set_default", &set_default, nb::arg("key").none(), nb::arg("content").none())
        .def("describe_array", &describe_array_at, nb::arg("key").none())
        .def("resize_array", &resize_array, nb::arg("key").none(), nb::arg("rows"), nb::arg("bytes_of_row"),
             nb::arg("to").none())
        .def("clear", &clear)
        .def("__len__", &length)
        .def("keys", [](const held& of, bool back) { return cursor(of, cursor::yields::keys, back); })
        .def("values", [](const held& of, bool back) { return cursor(of, cursor::yields::contents, back); })
        .def("items", [](const held& of, bool back) { return cursor(of, cursor::yields::items, back); })
        .def("list_get", &list_get)
        .def("list_set", &list_set, nb::arg("index"), nb::arg("content").none())
        .def("list_splice", &list_splice)
        .def("list_pop", &list_pop)
        .def("to_plain", &to_plain)
        .def("is_same", [](const held& of, const held& other) { return of->is(*other); })
        .def_prop_ro("shared_session",
                     [](const held& of) -> nb::object {
                         return of->owner()->shared() ? nb::cast(of->owner()) : nb::object(nb::none());
                     })
        .def_prop_ro("is_dict", [](const held& of) { return of->what() == kind::dict; });
}

}  // namespace holdfast::python
