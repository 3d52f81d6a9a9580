#include "store_version.hpp"

#include <cerrno>

#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "convert.hpp"

namespace nb = nanobind;

namespace holdfast::python {

namespace {

/// Counts the forks that led to this process: an environment of the parent is none of the child.
std::uint64_t& forks() noexcept {
    static std::uint64_t count = 0;
    return count;
}

const char* name_of_code(int code) noexcept {
    switch (code) {
        case MDB_CORRUPTED:
        case MDB_PAGE_NOTFOUND:
        case MDB_PANIC:
        case ESTALE: return "corrupt";
        case EBUSY: return "locked";
        case MDB_INVALID: return "not_a_heap";
        case MDB_VERSION_MISMATCH: return "version_unsupported";
        case MDB_MAP_FULL:
        case ENOSPC:
        case EDQUOT: return "no_space";
        case EFBIG: return "limit";
        case ENOMEM: return "out_of_memory";
        case ENOENT: return "not_found";
        case EEXIST: return "already_exists";
        case EACCES:
        case EPERM: return "permission";
        case EROFS: return "read_only";
        case EINVAL:
        case EDEADLK:
        case EISDIR:
        case ENOTDIR:
        case MDB_BAD_VALSIZE: return "invalid_argument";
        default: return "io";
    }
}

}  // namespace

void forget_stores_of_parent() noexcept { ++forks(); }

void raise_store_error(const char* code, const store_failure& what, int os_error) {
    std::string text = what.path + ": " + what.field;
    if (!what.found.empty()) {
        text += ": found " + what.found;
    }
    if (!what.expected.empty()) {
        text += ", expected " + what.expected;
    }
    if (!what.hint.empty()) {
        text += " (" + what.hint + ")";
    }
    const nb::object made =
        nb::handle(python_package().make_error)(code, shown(text), shown(what.path), shown(what.field),
                                                shown(what.found), shown(what.expected), shown(what.hint), os_error);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
    throw nb::python_error();
}

void expect(int outcome, const std::string& path, const char* field) {
    if (outcome == MDB_SUCCESS) {
        return;
    }
    store_failure what{.path = path, .field = field, .found = mdb_strerror(outcome), .expected = "", .hint = ""};
    switch (outcome) {
        case MDB_INVALID:
            what.expected = "a file of holdfast.Store";
            what.hint = "`holdfast import` makes a store of an LMDB file";
            break;
        case MDB_CORRUPTED:
        case MDB_PAGE_NOTFOUND:
            what.expected = "pages that match their checksums";
            what.hint = "restore a copy";
            break;
        case MDB_VERSION_MISMATCH: what.expected = "a format that this version reads"; break;
        case MDB_MAP_FULL: what.expected = "room below the limit of the store"; break;
        case EFBIG: what.hint = "raise `ulimit -f`"; break;
        case ESTALE:
            what.expected = "the file that was there when these processes opened the store";
            what.hint = "close the store in all of them, or move that file back";
            break;
        case EBUSY:
            what.expected = "a lock file that this process may write, as others have the store open";
            what.hint = "open the store through a mount that may be written, or open a copy";
            break;
        case EDEADLK:
            what.expected = "no transaction of this thread on this file";
            what.hint = "change the store through the transaction";
            break;
        default: break;
    }
    raise_store_error(name_of_code(outcome), what, outcome > 0 ? outcome : 0);
}

bytes_view::bytes_view(nb::handle from, const char* what) {
    if (PyBytes_Check(from.ptr())) {
        char* data = nullptr;
        Py_ssize_t size = 0;
        PyBytes_AsStringAndSize(from.ptr(), &data, &size);
        text_ = {data, static_cast<std::size_t>(size)};
        return;
    }
    if (PyObject_CheckBuffer(from.ptr()) == 0) {
        const nb::str kind = nb::steal<nb::str>(PyType_GetName(Py_TYPE(from.ptr())));
        throw nb::type_error((std::string(what) + " of a store is bytes, not " + kind.c_str()).c_str());
    }
    if (PyObject_GetBuffer(from.ptr(), &buffer_, PyBUF_SIMPLE) != 0) {
        throw nb::python_error();
    }
    is_buffer_ = true;
    text_ = {static_cast<const char*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
}

environment::environment(std::string path, MDB_env* env) : path_(std::move(path)), env_(env), forks_(forks()) {}

bool environment::is_of_this_process() const noexcept { return forks_ == forks(); }

environment::~environment() {
    if (!is_of_this_process() || abandoned_) {
        return;  // The parent's, or of a thread that has kept its transaction: unmapping it would take it away.
    }
    for (MDB_txn* const each : idle_) {
        mdb_txn_abort(each);
    }
    mdb_env_close(env_);
}

void environment::expect_process() const {
    if (!is_of_this_process()) {
        raise_store_error("wrong_process",
                          {.path = path_,
                           .field = "store",
                           .found = "a store of the parent process",
                           .expected = "one that this process has opened",
                           .hint = "open it anew, or pass it as an argument: it is pickled as its path"});
    }
}

MDB_txn* environment::begin_read() {
    expect_process();
    MDB_txn* made = nullptr;
    if (!idle_.empty()) {
        made = idle_.back();
        idle_.pop_back();
        if (mdb_txn_renew(made) == MDB_SUCCESS) {
            return made;
        }
        mdb_txn_abort(made);
    }
    expect(mdb_txn_begin(env_, nullptr, MDB_RDONLY, &made), path_, "read");
    return made;
}

void environment::end_read(MDB_txn* ended) noexcept {
    if (!is_of_this_process()) {
        return;
    }
    if (idle_.size() >= most_idle) {
        mdb_txn_abort(ended);
        return;
    }
    mdb_txn_reset(ended);
    idle_.push_back(ended);
}

version::version(std::shared_ptr<environment> of, std::shared_ptr<version> outer, bool writes)
    : of_(std::move(of)), outer_(std::move(outer)), writes_(writes), owner_(std::this_thread::get_id()) {
    of_->expect_process();
    if (!writes_) {
        native_ = of_->begin_read();
        return;
    }
    MDB_txn* const around = outer_ ? outer_->native(true) : nullptr;
    int outcome = 0;
    {
        const nb::gil_scoped_release released;
        outcome = mdb_txn_begin(of_->native(), around, 0, &native_);
    }
    expect(outcome, of_->path(), "transaction");
    if (outer_) {
        outer_->inner_ = true;
    }
}

version::~version() {
    if (native_ == nullptr) {
        return;
    }
    if (writes_ && (owner_ != std::this_thread::get_id() || !of_->is_of_this_process())) {
        of_->abandon();  // The lock of writers belongs to the thread that has it.
        return;
    }
    finish(false);
}

MDB_txn* version::native(bool to_change) const {
    of_->expect_process();
    if (native_ == nullptr) {
        refuse("a transaction that has ended", "one that is open");
    }
    if (inner_) {
        refuse("a transaction in which another one is open", "the inner one");
    }
    if (writes_ && owner_ != std::this_thread::get_id()) {
        refuse("another thread", "the thread that has begun the transaction");
    }
    if (to_change && !writes_) {
        raise_store_error("read_only", {.path = of_->path(),
                                        .field = "transaction",
                                        .found = "a change of a version for reading",
                                        .expected = "",
                                        .hint = "use write()"});
    }
    return native_;
}

bool version::find(std::string_view key, MDB_val& value) const {
    MDB_txn* const in = native(false);
    if (key.empty()) {
        return false;
    }
    MDB_val name = store_detail::to_value(key);
    const int outcome = mdb_get(in, unnamed_database, &name, &value);
    if (outcome != MDB_NOTFOUND) {
        expect(outcome, of_->path(), "key");
    }
    return outcome == MDB_SUCCESS;
}

void version::put(std::string_view key, std::string_view content) {
    MDB_txn* const in = native(true);
    if (!of_->is_key(key)) {
        raise_store_error("invalid_argument", {.path = of_->path(),
                                               .field = "key",
                                               .found = std::to_string(key.size()) + " bytes",
                                               .expected = "1 to " + std::to_string(of_->longest_key()) + " bytes",
                                               .hint = ""});
    }
    MDB_val name = store_detail::to_value(key);
    MDB_val value = store_detail::to_value(content);
    ++changes_;
    expect(mdb_put(in, unnamed_database, &name, &value, 0), of_->path(), "key");
}

bool version::erase(std::string_view key) {
    MDB_txn* const in = native(true);
    if (key.empty()) {
        return false;
    }
    MDB_val name = store_detail::to_value(key);
    ++changes_;
    const int outcome = mdb_del(in, unnamed_database, &name, nullptr);
    if (outcome != MDB_NOTFOUND) {
        expect(outcome, of_->path(), "key");
    }
    return outcome == MDB_SUCCESS;
}

void version::clear() {
    ++changes_;
    expect(mdb_drop(native(true), unnamed_database, 0), of_->path(), "store");
}

std::size_t version::size() const {
    MDB_stat sums{};
    expect(mdb_stat(native(false), unnamed_database, &sums), of_->path(), "store");
    return sums.ms_entries;
}

void version::end(bool commit) {
    if (native_ == nullptr) {
        return;
    }
    static_cast<void>(native(false));
    expect(finish(commit), of_->path(), "commit");
}

void version::refuse(const char* found, const char* expected) const {
    raise_store_error("invalid_argument",
                      {.path = of_->path(), .field = "transaction", .found = found, .expected = expected, .hint = ""});
}

int version::finish(bool commit) {
    MDB_txn* const ended = std::exchange(native_, nullptr);
    if (outer_) {
        outer_->inner_ = false;
        ++outer_->changes_;
    }
    if (!writes_) {
        of_->end_read(ended);
        return MDB_SUCCESS;
    }
    const nb::gil_scoped_release released;
    if (commit) {
        return mdb_txn_commit(ended);
    }
    mdb_txn_abort(ended);
    return MDB_SUCCESS;
}

}  // namespace holdfast::python
