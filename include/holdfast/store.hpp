// holdfast::store: a key-value store in a file, by name and value of C++.
//
//     holdfast::store shop("shop.store");
//     {
//         auto change = shop.write();
//         change.put("apples", "12");
//         change.put("pears", "7");
//         change.commit();
//     }
//     auto view = shop.read();
//     for (const auto& [fruit, number] : view.from("b")) { ... }
//
// The engine is lmdb.h's (docs/store.md): any number of processes and threads read versions that do not change, one at
// a time writes, and a commit is durable when commit() returns. Programs link Holdfast's library lmdb, whose lmdb.h is
// in include/holdfast/lmdb.
//
// What a view or a transaction returns is valid until its end, in a transaction until its next change. Errors, but for
// missing keys, are thrown as holdfast::store_error.
#pragma once

#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <holdfast/detail/needs_cxx20.hpp>
#include <lmdb.h>

namespace holdfast {

/// `code`: of lmdb.h, or an error number of the system.
class store_error : public std::exception {
public:
    explicit store_error(int code) noexcept : code_(code) {}
    [[nodiscard]] int code() const noexcept { return code_; }
    [[nodiscard]] const char* what() const noexcept override { return mdb_strerror(code_); }

private:
    int code_;
};

struct store_options {
    bool durable = true;  ///< false: a commit survives the process, not a loss of power
    bool read_only = false;
    std::size_t limit = 0;       ///< bytes of the file; 0: the last one that it was given, else as the disk has
    unsigned databases = 16;     ///< named ones of this process
    unsigned longest_key = 511;  ///< bytes, up to 65,536 (docs/store.md)
    mode_t mode = 0664;
};

namespace store_detail {

inline void check(int outcome) {
    if (outcome != MDB_SUCCESS) {
        throw store_error(outcome);
    }
}
[[nodiscard]] inline MDB_val to_value(std::string_view text) noexcept {
    return {text.size(), const_cast<char*>(text.data())};
}
[[nodiscard]] inline std::string_view to_view(const MDB_val& value) noexcept {
    return {static_cast<const char*>(value.mv_data), value.mv_size};
}

struct environment_closer {
    void operator()(MDB_env* env) const noexcept { mdb_env_close(env); }
};
[[nodiscard]] inline std::shared_ptr<MDB_env> make_environment(const store_options& options) {
    MDB_env* made = nullptr;
    check(mdb_env_create(&made));
    std::shared_ptr<MDB_env> env(made, environment_closer());
    check(mdb_env_set_maxdbs(made, options.databases));
    check(hf_lmdb_set_maxkeysize(made, options.longest_key));
    if (options.limit != 0) {
        check(mdb_env_set_mapsize(made, options.limit));
    }
    return env;
}
struct transaction_ender {
    void operator()(MDB_txn* txn) const noexcept { mdb_txn_abort(txn); }
};
struct cursor_closer {
    void operator()(MDB_cursor* cursor) const noexcept { mdb_cursor_close(cursor); }
};

}  // namespace store_detail

/// The entries of one range-based loop, in the order of keys.
class store_range {
public:
    using entry = std::pair<std::string_view, std::string_view>;

    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = entry;
        using difference_type = std::ptrdiff_t;
        using pointer = const entry*;
        using reference = const entry&;

        iterator() = default;
        explicit iterator(MDB_cursor* cursor, MDB_cursor_op how, std::string_view key) : cursor_(cursor) {
            move(how, store_detail::to_value(key));
        }
        [[nodiscard]] reference operator*() const noexcept { return entry_; }
        [[nodiscard]] pointer operator->() const noexcept { return &entry_; }
        iterator& operator++() {
            move(MDB_NEXT, {});
            return *this;
        }
        void operator++(int) { ++*this; }
        [[nodiscard]] bool operator==(const iterator& other) const noexcept { return cursor_ == other.cursor_; }

    private:
        void move(MDB_cursor_op how, MDB_val key) {
            MDB_val value{};
            const int outcome = mdb_cursor_get(cursor_, &key, &value, how);
            if (outcome == MDB_NOTFOUND) {
                cursor_ = nullptr;
                return;
            }
            store_detail::check(outcome);
            entry_ = {store_detail::to_view(key), store_detail::to_view(value)};
        }
        MDB_cursor* cursor_ = nullptr;
        entry entry_;
    };

    /// `writes`: of a transaction, whose cursors end with it; null: of a view, which leaves cursors to be closed.
    store_range(MDB_txn* in, MDB_dbi database, std::string_view key, const std::shared_ptr<char>& writes)
        : key_(key), writes_(writes), is_of_view_(writes == nullptr) {
        MDB_cursor* made = nullptr;
        store_detail::check(mdb_cursor_open(in, database, &made));
        cursor_.reset(made);
    }
    store_range(store_range&&) noexcept = default;
    store_range& operator=(store_range&& other) noexcept {
        const store_range old(std::move(*this));  // which knows whether its cursor is there
        key_ = std::move(other.key_);
        writes_ = std::move(other.writes_);
        is_of_view_ = other.is_of_view_;
        cursor_ = std::move(other.cursor_);
        return *this;
    }
    store_range(const store_range&) = delete;
    store_range& operator=(const store_range&) = delete;
    ~store_range() {
        if (!is_of_view_ && writes_.expired()) {
            static_cast<void>(cursor_.release());
        }
    }
    [[nodiscard]] iterator begin() const {
        store_detail::check(is_of_view_ || !writes_.expired() ? MDB_SUCCESS : MDB_BAD_TXN);
        return iterator(cursor_.get(), key_.empty() ? MDB_FIRST : MDB_SET_RANGE, key_);
    }
    [[nodiscard]] iterator end() const noexcept { return {}; }

private:
    std::string key_;
    std::weak_ptr<char> writes_;
    bool is_of_view_;
    std::unique_ptr<MDB_cursor, store_detail::cursor_closer> cursor_;
};

class store_transaction;

/// One unchanging version of the store. Thread safety: by one thread at a time.
class store_view {
public:
    [[nodiscard]] std::optional<std::string_view> get(std::string_view key, MDB_dbi database = 1) const {
        if (key.empty()) {
            return std::nullopt;  // never a key
        }
        MDB_val name = store_detail::to_value(key);
        MDB_val value{};
        const int outcome = mdb_get(transaction_.get(), database, &name, &value);
        if (outcome == MDB_NOTFOUND) {
            return std::nullopt;
        }
        store_detail::check(outcome);
        return store_detail::to_view(value);
    }
    [[nodiscard]] bool contains(std::string_view key, MDB_dbi database = 1) const {
        return get(key, database).has_value();
    }
    [[nodiscard]] std::size_t size(MDB_dbi database = 1) const {
        MDB_stat sums{};
        store_detail::check(mdb_stat(transaction_.get(), database, &sums));
        return sums.ms_entries;
    }
    /// The first entry not below the key, and those behind it; all for the empty key.
    [[nodiscard]] store_range from(std::string_view key, MDB_dbi database = 1) const {
        return {transaction_.get(), database, key, writes_};
    }
    [[nodiscard]] store_range all(MDB_dbi database = 1) const { return from({}, database); }

protected:
    friend class store;
    store_view(MDB_env* env, MDB_txn* outer, unsigned flags) {
        MDB_txn* made = nullptr;
        store_detail::check(mdb_txn_begin(env, outer, flags, &made));
        transaction_.reset(made);
    }
    std::unique_ptr<MDB_txn, store_detail::transaction_ender> transaction_;
    std::shared_ptr<char> writes_;  ///< until a transaction ends; a view has none
};

/// Changes that become visible, and durable, together; before that, ranges are read, and nested transactions end.
/// Thread safety: by the thread that began them.
class store_changes : public store_view {
public:
    void put(std::string_view key, std::string_view value, MDB_dbi database = 1) {
        MDB_val name = store_detail::to_value(key);
        MDB_val data = store_detail::to_value(value);
        store_detail::check(mdb_put(transaction_.get(), database, &name, &data, 0));
    }
    /// False: the key has a value, which stays.
    bool insert(std::string_view key, std::string_view value, MDB_dbi database = 1) {
        MDB_val name = store_detail::to_value(key);
        MDB_val data = store_detail::to_value(value);
        const int outcome = mdb_put(transaction_.get(), database, &name, &data, MDB_NOOVERWRITE);
        if (outcome != MDB_KEYEXIST) {
            store_detail::check(outcome);
        }
        return outcome == MDB_SUCCESS;
    }
    /// False: the key is not there.
    bool erase(std::string_view key, MDB_dbi database = 1) {
        if (key.empty()) {
            return false;
        }
        MDB_val name = store_detail::to_value(key);
        const int outcome = mdb_del(transaction_.get(), database, &name, nullptr);
        if (outcome != MDB_NOTFOUND) {
            store_detail::check(outcome);
        }
        return outcome == MDB_SUCCESS;
    }
    void clear(MDB_dbi database = 1) { store_detail::check(mdb_drop(transaction_.get(), database, 0)); }
    /// A transaction in this one, which waits meanwhile, and gets its changes with commit().
    [[nodiscard]] store_transaction nested();

protected:
    store_changes(MDB_env* env, MDB_txn* outer) : store_view(env, outer, 0) { writes_ = std::make_shared<char>(); }
};

/// Without commit(), the changes are undone at the end.
class store_transaction : public store_changes {
public:
    void commit() {
        writes_.reset();
        store_detail::check(mdb_txn_commit(transaction_.release()));
    }

private:
    friend class store;
    friend class store_changes;
    store_transaction(MDB_env* env, MDB_txn* outer) : store_changes(env, outer) {}
};

inline store_transaction store_changes::nested() { return {mdb_txn_env(transaction_.get()), transaction_.get()}; }

/// Views and transactions end before it. Thread safety: any number of threads, each with its own of them.
class store {
public:
    /// Opens or makes the file, and one whose name adds -lock.
    explicit store(const std::string& path, const store_options& options = {})
        : env_(store_detail::make_environment(options)) {
        const unsigned flags = MDB_NOSUBDIR | MDB_NOTLS | (options.durable ? 0U : unsigned{MDB_NOSYNC}) |
                               (options.read_only ? unsigned{MDB_RDONLY} : 0U);
        store_detail::check(mdb_env_open(env_.get(), path.c_str(), flags, options.mode));
    }
    [[nodiscard]] store_view read() const { return {env_.get(), nullptr, MDB_RDONLY}; }
    /// Waits until the transaction of another thread or process ends.
    [[nodiscard]] store_transaction write() { return {env_.get(), nullptr}; }
    /// Its number; 1 has no name. Makes a missing one, unless the store is read-only. Waits as write() does.
    [[nodiscard]] MDB_dbi database(const std::string& name, unsigned flags = 0) {
        unsigned of_store = 0;
        store_detail::check(mdb_env_get_flags(env_.get(), &of_store));
        const bool read_only = (of_store & MDB_RDONLY) != 0;
        // The C interface would lose what is behind a zero.
        store_detail::check(name.find('\0') == std::string::npos ? MDB_SUCCESS : MDB_BAD_VALSIZE);
        store_view in(env_.get(), nullptr, read_only ? MDB_RDONLY : 0U);
        MDB_dbi number = 0;
        store_detail::check(
            mdb_dbi_open(in.transaction_.get(), name.c_str(), read_only ? flags : flags | MDB_CREATE, &number));
        store_detail::check(mdb_txn_commit(in.transaction_.release()));
        return number;
    }
    /// Makes all commits durable.
    void sync() { store_detail::check(mdb_env_sync(env_.get(), 1)); }
    /// Returns the number of pages. Throws store_error where one is damaged.
    std::size_t check() const {
        std::size_t pages = 0;
        store_detail::check(hf_lmdb_check(env_.get(), &pages));
        return pages;
    }
    [[nodiscard]] MDB_env* native() const noexcept { return env_.get(); }

protected:
    explicit store(std::shared_ptr<MDB_env> env) noexcept : env_(std::move(env)) {}

private:
    std::shared_ptr<MDB_env> env_;
};

}  // namespace holdfast
