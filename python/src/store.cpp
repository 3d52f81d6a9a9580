// What holdfast.Store stands on: an open store, and versions of it. Keys and values are bytes, copied when they are
// read.
//
// Thread safety: all of it runs under the interpreter's lock, which is let go where a call may wait: for the
// transaction of another thread or process, for a commit, a sync, a copy and a check. A version in use keeps its
// environment open.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "store_version.hpp"

namespace nb = nanobind;

namespace holdfast::python {

namespace {

nb::bytes to_bytes(std::string_view text) { return nb::bytes(text.data(), text.size()); }
std::string_view to_text(const MDB_val& value) noexcept { return store_detail::to_view(value); }

/// Entries between two keys, in order, copied some at a time. After a change of its transaction it goes on behind the
/// last key that it has returned.
class entries {
public:
    enum class part : char { keys = 'k', values = 'v', pairs = 'i' };

    entries(std::shared_ptr<version> in, part what, nb::handle begin, nb::handle end, bool backwards)
        : in_(std::move(in)), what_(what), backwards_(backwards) {
        if (!begin.is_none()) {
            begin_ = bytes_view(begin, "a key").text();
        }
        if (!end.is_none()) {
            end_ = bytes_view(end, "a key").text();
            has_end_ = true;
        }
        last_ = backwards_ ? end_ : begin_;
        seen_ = in_->changes();
    }

    [[nodiscard]] nb::object next() {
        if (in_ == nullptr) {
            throw nb::stop_iteration();
        }
        if (seen_ != in_->changes()) {
            next_ = batch_.size();
            seen_ = in_->changes();
        }
        if (next_ == batch_.size()) {
            read();
            if (batch_.empty()) {
                in_.reset();
                throw nb::stop_iteration();
            }
        }
        auto& [key, value] = batch_[next_++];
        last_ = key;
        has_returned_ = true;
        switch (what_) {
            case part::keys: return to_bytes(key);
            case part::values: return to_bytes(value);
            default: return nb::make_tuple(to_bytes(key), to_bytes(value));
        }
    }

private:
    static constexpr std::size_t most_entries = 256;
    static constexpr std::size_t most_bytes = std::size_t{256} << 10U;

    /// Moves to the first entry that is to be returned; MDB_NOTFOUND where there is none.
    [[nodiscard]] int seek(MDB_cursor* cursor, MDB_val& key, MDB_val& value) const {
        key = store_detail::to_value(last_);
        if (!backwards_) {
            if (last_.empty()) {
                return mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
            }
            const int outcome = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
            const bool again = outcome == MDB_SUCCESS && (has_returned_ ? to_text(key) <= last_ : to_text(key) < last_);
            return again ? mdb_cursor_get(cursor, &key, &value, MDB_NEXT) : outcome;
        }
        if (!has_end_ && !has_returned_) {
            return mdb_cursor_get(cursor, &key, &value, MDB_LAST);
        }
        if (last_.empty()) {
            return MDB_NOTFOUND;
        }
        const int outcome = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
        if (outcome == MDB_NOTFOUND) {
            return mdb_cursor_get(cursor, &key, &value, MDB_LAST);
        }
        // Both the end and what was returned last are left out.
        const bool below = outcome == MDB_SUCCESS && to_text(key) < last_;
        return outcome != MDB_SUCCESS || below ? outcome : mdb_cursor_get(cursor, &key, &value, MDB_PREV);
    }
    [[nodiscard]] bool is_within(std::string_view key) const noexcept {
        return backwards_ ? key >= begin_ : !has_end_ || key < end_;
    }

    void read() {
        batch_.clear();
        next_ = 0;
        MDB_cursor* made = nullptr;
        expect(mdb_cursor_open(in_->native(false), unnamed_database, &made), in_->of()->path(), "store");
        const std::unique_ptr<MDB_cursor, store_detail::cursor_closer> cursor(made);
        MDB_val key{};
        MDB_val value{};
        std::size_t bytes = 0;
        int outcome = seek(cursor.get(), key, value);
        while (outcome == MDB_SUCCESS && is_within(to_text(key))) {
            const bool with_value = what_ != part::keys;
            batch_.emplace_back(to_text(key), with_value ? to_text(value) : std::string_view());
            bytes += key.mv_size + (with_value ? value.mv_size : 0);
            if (batch_.size() >= wanted_ || bytes >= most_bytes) {
                break;
            }
            outcome = mdb_cursor_get(cursor.get(), &key, &value, backwards_ ? MDB_PREV : MDB_NEXT);
        }
        if (outcome != MDB_NOTFOUND) {
            expect(outcome, in_->of()->path(), "store");
        }
        wanted_ = std::min(4 * wanted_, most_entries);  // A program may want the first entry alone.
    }

    std::shared_ptr<version> in_;
    part what_;
    bool backwards_;
    std::string begin_;
    std::string end_;
    bool has_end_ = false;
    std::string last_;  ///< what was returned last; before that, where to begin
    bool has_returned_ = false;
    std::uint64_t seen_ = 0;
    std::size_t wanted_ = 1;
    std::size_t next_ = 0;
    std::vector<std::pair<std::string, std::string>> batch_;
};

/// A store that is open.
class open_store {
public:
    open_store(const std::string& path, bool read_only, bool durable, std::size_t limit, unsigned longest_key)
        : path_(path) {
        MDB_env* made = nullptr;
        expect(mdb_env_create(&made), path, "store");
        std::unique_ptr<MDB_env, store_detail::environment_closer> env(made);
        if (limit != 0) {
            expect(mdb_env_set_mapsize(made, limit), path, "limit");
        }
        expect(mdb_env_set_maxreaders(made, most_readers), path, "store");
        expect(hf_lmdb_set_maxkeysize(made, longest_key), path, "longest_key");
        const unsigned flags =
            MDB_NOSUBDIR | MDB_NOTLS | (durable ? 0U : unsigned{MDB_NOSYNC}) | (read_only ? unsigned{MDB_RDONLY} : 0U);
        int outcome = 0;
        {
            const nb::gil_scoped_release released;
            outcome = mdb_env_open(made, path.c_str(), flags, 0664);
        }
        expect(outcome, path, "store");
        of_ = std::make_shared<environment>(path, env.release());
    }

    [[nodiscard]] bool is_closed() const noexcept { return of_ == nullptr; }
    void close() noexcept { of_.reset(); }
    [[nodiscard]] std::shared_ptr<environment> opened() const {
        if (of_ == nullptr) {
            raise_store_error("invalid_argument", {.path = path_,
                                                   .field = "store",
                                                   .found = "one that is closed",
                                                   .expected = "an open one",
                                                   .hint = ""});
        }
        of_->expect_process();
        return of_;
    }
    void sync() const {
        waiting("sync", [](MDB_env* env) { return mdb_env_sync(env, 1); });
    }
    void copy(const std::string& to) const {
        const auto of = opened();
        int outcome = 0;
        {
            const nb::gil_scoped_release released;
            outcome = mdb_env_copy2(of->native(), to.c_str(), 0);
        }
        expect(outcome, to, "copy");
    }
    [[nodiscard]] std::size_t check() const {
        std::size_t pages = 0;
        waiting("page", [&pages](MDB_env* env) { return hf_lmdb_check(env, &pages); });
        return pages;
    }

private:
    static constexpr unsigned most_readers = 4096;

    template <class Call>
    void waiting(const char* what, Call call) const {
        const auto of = opened();
        int outcome = 0;
        {
            const nb::gil_scoped_release released;
            outcome = call(of->native());
        }
        expect(outcome, of->path(), what);
    }

    std::string path_;
    std::shared_ptr<environment> of_;
};

nb::object get(const version& in, nb::handle key, nb::handle fallback) {
    MDB_val value{};
    const bytes_view name(key, "a key");
    return in.find(name.text(), value) ? nb::object(to_bytes(to_text(value))) : nb::borrow(fallback);
}

bool contains(const version& in, nb::handle key) {
    MDB_val value{};
    return in.find(bytes_view(key, "a key").text(), value);
}

bool erase(version& in, nb::handle key) { return in.erase(bytes_view(key, "a key").text()); }

std::shared_ptr<entries> entries_of(const std::shared_ptr<version>& in, const std::string& part, nb::handle begin,
                                    nb::handle end, bool backwards) {
    static_cast<void>(in->native(false));  // An error belongs to the call, not to the first entry.
    return std::make_shared<entries>(in, entries::part(part.at(0)), begin, end, backwards);
}

void put(version& in, nb::handle key, nb::handle content) {
    const bytes_view name(key, "a key");
    const bytes_view value(content, "a value");
    in.put(name.text(), value.text());
}

}  // namespace

void bind_stores(nb::module_& into) {
    using shared_version = std::shared_ptr<version>;
    const auto key = nb::arg("key").none();
    nb::class_<entries>(into, "StoreEntries")
        .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
        .def("__next__", &entries::next);
    nb::class_<version>(into, "StoreVersion")
        .def_prop_ro("is_open", &version::is_open)
        .def("get", &get, key, nb::arg("fallback").none())
        .def("contains", &contains, key)
        .def("put", &put, key, nb::arg("content").none())
        .def("erase", &erase, key)
        .def("clear", &version::clear)
        .def("__len__", &version::size)
        .def("entries", &entries_of, nb::arg("part"), nb::arg("begin").none(), nb::arg("end").none(),
             nb::arg("backwards"))
        .def("nested", [](const shared_version& in) { return std::make_shared<version>(in->of(), in, true); })
        .def("end", &version::end);
    nb::class_<open_store>(into, "OpenStore")
        .def(nb::init<const std::string&, bool, bool, std::size_t, unsigned>())
        .def_prop_ro("closed", &open_store::is_closed)
        .def("close", &open_store::close)
        .def(
            "get",
            [](const open_store& of, nb::handle name, nb::handle fallback) {
                return get(version(of.opened(), nullptr, false), name, fallback);
            },
            key, nb::arg("fallback").none())
        .def("begin",
             [](const open_store& of, bool writes) { return std::make_shared<version>(of.opened(), nullptr, writes); })
        .def("sync", &open_store::sync)
        .def("copy", &open_store::copy)
        .def("check", &open_store::check);
}

}  // namespace holdfast::python
