// From Python's objects to documents, and back. All functions need the interpreter's lock, and none of a heap's.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include <nanobind/nanobind.h>

#include "document.hpp"
#include "session.hpp"

namespace holdfast::python {

/// What the package's Python code gives to this module.
struct package {
    PyObject* wrap_dict = nullptr;           ///< held -> holdfast.Dict
    PyObject* wrap_list = nullptr;           ///< held -> holdfast.List
    PyObject* view_array = nullptr;          ///< (buffer, type, shape, order) -> numpy.ndarray
    PyObject* make_extended = nullptr;       ///< (name, content) -> object
    PyObject* describe_other = nullptr;      ///< object -> array_description, a plain value, or TypeError
    PyObject* unpickle = nullptr;            ///< bytes -> object
    PyObject* entered = nullptr;             ///< () -> numbers of the transactions that this context is in
    PyObject* is_of_running_task = nullptr;  ///< (number of a transaction) -> bool
    PyObject* make_error = nullptr;  ///< (code, message, path, field, found, expected, hint, errno) -> exception
};
[[nodiscard]] package& python_package() noexcept;

/// The memory of an array in the heap, or of a copy, as a buffer of bytes.
struct array_buffer {
    std::shared_ptr<void> owner;
    void* data = nullptr;
    std::uint64_t bytes = 0;
    bool writable = false;
    std::uint64_t turn = 0;  ///< the outermost transaction, of a heap that processes share, at whose end it is not
};

/// What describe_other() says of an array: its buffer is contiguous. (Hidden, as all of nanobind is.)
struct [[gnu::visibility("hidden")]] array_description {
    std::string type;
    std::vector<std::uint64_t> shape;
    std::uint32_t order = 0;
    nanobind::object buffer;
};
/// What describe_other() says of holdfast.pickled().
struct pickled_bytes {
    std::string bytes;
};
/// What describe_other() says of a value of another type that it knows.
struct [[gnu::visibility("hidden")]] extended_value {
    std::string name;
    nanobind::object content;
    bool can_be_key = false;
};

/// Throws python_error: TypeError for what cannot be stored, RecursionError where it is nested too deeply.
[[nodiscard]] document to_document(nanobind::handle from);
/// As to_document(), in the one form that equal keys have. TypeError for what cannot be a key.
[[nodiscard]] document to_key(nanobind::handle from);
/// `session`: whose arrays may be written, where it is open for writing.
[[nodiscard]] nanobind::object to_python(const document& from);

/// A str in which bytes that are no UTF-8, as names and paths may have, are escaped.
[[nodiscard]] nanobind::object shown(const std::string& text);

/// Takes the session's lock, without the interpreter's. Throws python_error where the handler of a signal raises
/// meanwhile, as that of Ctrl-C does.
void wait_for_lock(std::unique_lock<session_mutex>& lock);

/// Runs `body` under the session's lock. `body` touches no object of Python. Where another thread has the lock, and
/// with `is_long`, the interpreter's lock is let go meanwhile.
template <class Body>
void locked(session& of, bool is_long, Body&& body) {
    if (!is_long) {
        if (const std::unique_lock lock(of.lock(), std::try_to_lock); lock.owns_lock()) {
            body();
            return;
        }
    }
    const nanobind::gil_scoped_release released;
    std::unique_lock lock(of.lock(), std::defer_lock);
    wait_for_lock(lock);
    body();
}

/// Whether this thread has begun the open transaction, in this context and this task.
[[nodiscard]] bool is_inside(const session& of);
/// Whether this thread has begun it, in another context or task. Throws error where another thread has begun it in a
/// task that has started this thread, and so may wait for it.
[[nodiscard]] bool is_outside(const session& of);

/// As locked(). What another task of this thread has changed in its transaction is not there for `body`.
template <class Body>
void guarded(session& of, bool is_long, Body&& body) {
    const outside_view view(of, of.transaction_number() != 0 && is_outside(of));
    locked(of, is_long, std::forward<Body>(body));
}

/// Lets Python hold the dicts, lists and arrays of a document that was read where `place` says; null where nobody needs
/// to know. Under the session's lock.
void hold_parts(document& in, session& of, const std::shared_ptr<const found_at>& place);

}  // namespace holdfast::python
