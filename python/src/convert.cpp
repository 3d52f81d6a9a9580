// Conversions between Python's objects and documents.
#include "convert.hpp"

#include <bit>
#include <chrono>
#include <cmath>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace holdfast::python {

package& python_package() noexcept {
    static package one;
    return one;
}

namespace {

/// Whether this context, or one that it was copied from, has begun the transaction. The interpreter's lock guards what
/// the last call has found: a tuple does not change, and this one is kept, so that no other has its address.
bool has_entered(std::uint64_t number) {
    static nb::handle last_numbers;
    static std::uint64_t last_number = 0;
    static bool last_answer = false;
    const nb::object numbers = nb::steal(PyObject_CallNoArgs(python_package().entered));
    if (!numbers.is_valid()) {
        throw nb::python_error();
    }
    if (numbers.ptr() != last_numbers.ptr() || number != last_number) {
        bool answer = false;
        for (const nb::handle each : nb::cast<nb::tuple>(numbers)) {
            answer = answer || nb::cast<std::uint64_t>(each) == number;
        }
        const nb::handle before = last_numbers;
        last_numbers = nb::handle(numbers).inc_ref();
        last_number = number;
        last_answer = answer;
        before.dec_ref();
    }
    return last_answer;
}

}  // namespace

void wait_for_lock(std::unique_lock<session_mutex>& lock) {
    constexpr std::chrono::milliseconds between_looks{50};
    while (!lock.try_lock_for(between_looks)) {
        const nb::gil_scoped_acquire acquired;
        if (PyErr_CheckSignals() != 0) {
            throw nb::python_error();
        }
    }
}

bool is_inside(const session& of) {
    const std::uint64_t number = of.transaction_number();
    return of.is_owner() && has_entered(number) &&
           (!of.is_of_task() || nb::cast<bool>(nb::handle(python_package().is_of_running_task)(number)));
}

bool is_outside(const session& of) {
    if (of.is_owner()) {
        return !is_inside(of);
    }
    if (of.is_of_task() && has_entered(of.transaction_number())) {
        const std::string& path = of.path();
        const char* const found = "a task's, which has called this thread within it";
        const char* const hint = "a transaction belongs to one task: end it before, or do the work in that task";
        throw error(errc::invalid_argument,
                    path + ": transaction: found " + found + ", expected none that may wait for this thread; " + hint,
                    {path, "transaction", found, "none that may wait for this thread", hint, 0});
    }
    return false;
}

namespace {

constexpr int most_levels = 400;
constexpr double least_beyond_integers = 9223372036854775808.0;  // 2^63

document scalar(kind what, std::uint64_t number) {
    document made;
    made.what = what;
    made.number = number;
    return made;
}

document blob(kind what, const char* begin, std::size_t size) {
    document made;
    made.what = what;
    made.bytes.assign(begin, size);
    return made;
}

document from_integer(nb::handle from) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(from.ptr(), &overflow);
    if (overflow == 0) {
        if (number == -1 && PyErr_Occurred() != nullptr) {
            throw nb::python_error();
        }
        return scalar(kind::integer, static_cast<std::uint64_t>(number));
    }
    const auto bits = nb::cast<std::size_t>(from.attr("bit_length")());
    const nb::bytes bytes(from.attr("to_bytes")(bits / 8 + 1, "little", nb::arg("signed") = true));
    return blob(kind::big_integer, bytes.c_str(), bytes.size());
}

document from_text(nb::handle from) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(from.ptr(), &size);
    if (text == nullptr) {
        throw nb::python_error();
    }
    return blob(kind::text, text, static_cast<std::size_t>(size));
}

document from_array(array_description& from) {
    document made;
    made.what = kind::array;
    made.array = std::make_shared<array_content>();
    made.array->type = from.type;
    made.array->shape = from.shape;
    made.array->order = from.order;
    struct view {
        Py_buffer buffer{};
        bool is_filled = false;
        view() = default;
        view(const view&) = delete;
        view& operator=(const view&) = delete;
        ~view() {
            if (is_filled) {
                const nb::gil_scoped_acquire acquired;
                PyBuffer_Release(&buffer);
            }
        }
    };
    const auto owner = std::make_shared<view>();
    if (PyObject_GetBuffer(from.buffer.ptr(), &owner->buffer, PyBUF_SIMPLE) != 0) {
        throw nb::python_error();
    }
    owner->is_filled = true;
    made.array->data = owner->buffer.buf;
    made.array->bytes = static_cast<std::uint64_t>(owner->buffer.len);
    made.array->owner = owner;
    return made;
}

document from_held(const held_object& from) {
    session& of = *from.owner();
    document made;
    guarded(of, false, [&] {
        contents& within = of.reading();
        value place;
        place.what = from.what();
        place.object = static_cast<values::object_tag*>(from.object());
        made = within.read(place, true);
    });
    return made;
}

document convert(nb::handle from, int level);

document from_sequence(nb::handle from, kind what, int level) {
    document made;
    made.what = what;
    for (const nb::handle each : nb::borrow<nb::iterable>(from)) {
        made.parts.push_back(convert(each, level + 1));
    }
    return made;
}

document from_dict(nb::handle from, int level) {
    document made;
    made.what = kind::dict;
    for (const auto& [key, content] : nb::borrow<nb::dict>(from)) {
        // A key or a value of numpy runs code of Python, in which the dict may lose them.
        const nb::object kept_key = nb::borrow(key);
        const nb::object kept_content = nb::borrow(content);
        made.parts.push_back(to_key(kept_key));
        made.parts.push_back(convert(kept_content, level + 1));
    }
    return made;
}

/// What the package's Python code knows: arrays, scalars of numpy, pickled objects, holdfast.Dict and List.
document from_other(nb::handle from, int level) {
    const nb::object told = nb::handle(python_package().describe_other)(from);
    if (nb::isinstance<array_description>(told)) {
        return from_array(nb::cast<array_description&>(told));
    }
    if (nb::isinstance<pickled_bytes>(told)) {
        const auto& bytes = nb::cast<pickled_bytes&>(told).bytes;
        return blob(kind::pickled, bytes.data(), bytes.size());
    }
    if (nb::isinstance<extended_value>(told)) {
        const auto& known = nb::cast<extended_value&>(told);
        document made;
        made.what = kind::extended;
        made.can_be_key = known.can_be_key;
        made.parts.push_back(blob(kind::text, known.name.data(), known.name.size()));
        made.parts.push_back(convert(known.content, level + 1));
        return made;
    }
    if (nb::isinstance<held_object>(told)) {
        return from_held(*nb::cast<std::shared_ptr<held_object>>(told));
    }
    return convert(told, level + 1);
}

document convert(nb::handle from, int level) {
    if (level > most_levels) {
        PyErr_SetString(PyExc_RecursionError, "a value is nested too deeply to be stored in a heap");
        throw nb::python_error();
    }
    PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(from.ptr()));
    const auto is = [type](PyTypeObject& of) { return type == reinterpret_cast<PyObject*>(&of); };
    if (from.is_none()) {
        return {};
    }
    if (is(PyBool_Type)) {
        return scalar(kind::boolean, from.ptr() == Py_True ? 1 : 0);
    }
    if (is(PyLong_Type)) {
        return from_integer(from);
    }
    if (is(PyFloat_Type)) {
        return scalar(kind::real, std::bit_cast<std::uint64_t>(PyFloat_AsDouble(from.ptr())));
    }
    if (is(PyUnicode_Type)) {
        return from_text(from);
    }
    if (is(PyBytes_Type)) {
        return blob(kind::bytes, PyBytes_AsString(from.ptr()), static_cast<std::size_t>(PyBytes_Size(from.ptr())));
    }
    if (is(PyTuple_Type)) {
        return from_sequence(from, kind::tuple, level);
    }
    if (is(PyList_Type)) {
        return from_sequence(from, kind::list, level);
    }
    if (is(PyDict_Type)) {
        return from_dict(from, level);
    }
    return from_other(from, level);
}

/// Equal keys get one form: True is 1, and a float that is an integer is that integer.
void make_canonical(document& key) {
    if (key.what == kind::boolean) {
        key.what = kind::integer;
    } else if (key.what == kind::tuple) {
        for (document& part : key.parts) {
            make_canonical(part);
        }
    } else if (key.what == kind::real) {
        const auto number = std::bit_cast<double>(key.number);
        if (std::isfinite(number) && number == std::floor(number)) {
            if (std::abs(number) < least_beyond_integers) {
                key = scalar(kind::integer, static_cast<std::uint64_t>(static_cast<std::int64_t>(number)));
            } else {
                key = from_integer(nb::steal(PyLong_FromDouble(number)));
            }
        }
    }
}

nb::object call(PyObject* function, nb::object argument) { return nb::handle(function)(std::move(argument)); }

nb::object from_bytes(const std::string& bytes) {
    return nb::steal(PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}

nb::object array_to_python(const document& from) {
    array_buffer buffer;
    buffer.data = const_cast<void*>(from.array->data);
    buffer.bytes = from.array->bytes;
    if (from.held != nullptr) {
        buffer.owner = from.held;
        const session& of = *from.held->owner();
        buffer.turn = of.shared() && of.is_owner() ? of.outermost_number() : 0;
        buffer.writable = of.shared() ? buffer.turn != 0 : !of.read_only();
    } else {
        buffer.owner = from.array->owner;
    }
    nb::list shape;
    for (const std::uint64_t each : from.array->shape) {
        shape.append(each);
    }
    return nb::handle(python_package().view_array)(nb::cast(std::move(buffer)), shown(from.array->type),
                                                   nb::tuple(shape), from.array->order);
}

nb::object list_to_python(const document& from) {
    nb::list made;
    for (const document& part : from.parts) {
        made.append(to_python(part));
    }
    return made;
}

}  // namespace

document to_document(nb::handle from) { return convert(from, 0); }

document to_key(nb::handle from) {
    document key = convert(from, 0);
    if (!is_key(key)) {
        const nb::str name(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(from.ptr()))).attr("__name__"));
        PyErr_Format(PyExc_TypeError, "a dict in a heap cannot have a key of type '%s', or of a tuple that holds one",
                     name.c_str());
        throw nb::python_error();
    }
    make_canonical(key);
    return key;
}

nb::object shown(const std::string& text) {
    return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

namespace {

/// Of what this module has stored, no text has such bytes.
[[noreturn]] void refuse_text() {
    if (PyErr_ExceptionMatches(PyExc_UnicodeDecodeError) == 0) {
        throw nb::python_error();
    }
    PyErr_Clear();
    const char* const found = "bytes that are no UTF-8";
    throw error(errc::corrupt, std::string("a text: found ") + found + ", expected UTF-8",
                {{}, "text", found, "UTF-8", "restore the heap from a snapshot", 0});
}

}  // namespace

nb::object to_python(const document& from) {
    switch (from.what) {
        case kind::none: return nb::none();
        case kind::boolean: return nb::bool_(from.number != 0);
        case kind::integer: return nb::int_(static_cast<std::int64_t>(from.number));
        case kind::real: return nb::float_(std::bit_cast<double>(from.number));
        case kind::text: {
            nb::object made =
                nb::steal(PyUnicode_FromStringAndSize(from.bytes.data(), static_cast<Py_ssize_t>(from.bytes.size())));
            if (!made.is_valid()) {
                refuse_text();
            }
            return made;
        }
        case kind::bytes: return from_bytes(from.bytes);
        case kind::big_integer:
            return nb::handle(reinterpret_cast<PyObject*>(&PyLong_Type))
                .attr("from_bytes")(from_bytes(from.bytes), "little", nb::arg("signed") = true);
        case kind::tuple: return nb::tuple(list_to_python(from));
        case kind::list:
            return from.held == nullptr ? list_to_python(from) : call(python_package().wrap_list, nb::cast(from.held));
        case kind::dict: {
            if (from.held != nullptr) {
                return call(python_package().wrap_dict, nb::cast(from.held));
            }
            nb::dict made;
            for (std::size_t i = 0; i + 1 < from.parts.size(); i += 2) {
                made[to_python(from.parts[i])] = to_python(from.parts[i + 1]);
            }
            return made;
        }
        case kind::array: return array_to_python(from);
        case kind::extended:
            return nb::handle(python_package().make_extended)(to_python(from.parts[0]), to_python(from.parts[1]));
        case kind::pickled: return call(python_package().unpickle, from_bytes(from.bytes));
        default: break;
    }
    PyErr_SetString(PyExc_SystemError, "a value of an unknown kind");
    throw nb::python_error();
}

void hold_parts(document& in, session& of, const std::shared_ptr<const found_at>& place) {
    if (in.object != nullptr && (in.what != kind::array || in.array->owner == nullptr)) {  // no copy
        in.held = std::make_shared<held_object>(of.shared_from_this(), in.object, in.what, place);
        return;
    }
    for (std::size_t i = 0; i < in.parts.size(); ++i) {
        std::shared_ptr<const found_at> within = place;
        if (place != nullptr && (in.parts[i].object != nullptr || !in.parts[i].parts.empty())) {
            auto deeper = std::make_shared<found_at>(*place);
            deeper->parts.push_back(i);
            within = std::move(deeper);
        }
        hold_parts(in.parts[i], of, within);
    }
}

}  // namespace holdfast::python
