#include "store/library_subject.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace holdfast::test {
namespace {

constexpr std::size_t quota = std::size_t{1} << 30U;

std::string copied(const MDB_val& value) { return std::string(bytes_of(value)); }

std::string database_name(unsigned database) { return std::string("database ") + kind_of(database).name; }

}  // namespace

library_subject::library_subject(const lmdb_library& library, std::string directory, unsigned flags)
    : lmdb_(library), directory_(std::move(directory)), flags_(flags) {
    std::filesystem::create_directory(directory_);
    environment_ = open_environment(directory_, flags_);
}

library_subject::~library_subject() {
    for (; !levels_.empty(); levels_.pop_back()) {
        lmdb_.txn_abort(levels_.back());
    }
    for (const auto& [id, one] : cursors_) {
        if (one.level == 0) {
            lmdb_.cursor_close(one.handle);
        }
    }
    for (const reader_state& reader : readers_) {
        if (reader.transaction != nullptr) {
            lmdb_.txn_abort(reader.transaction);
        }
    }
    if (environment_ != nullptr) {
        lmdb_.env_close(environment_);
    }
}

MDB_env* library_subject::open_environment(const std::string& directory, unsigned flags) const {
    MDB_env* made = nullptr;
    int code = lmdb_.env_create(&made);
    code = code == 0 ? lmdb_.env_set_maxdbs(made, kinds_of_databases + 1) : code;
    code = code == 0 ? lmdb_.env_set_mapsize(made, quota) : code;
    code = code == 0 ? lmdb_.env_open(made, directory.c_str(), flags | MDB_NOTLS | MDB_NOSYNC, 0600) : code;
    if (code != 0) {
        throw std::runtime_error("cannot open " + directory + ": " + error_name(code));
    }
    return made;
}

MDB_txn* library_subject::transaction_of(unsigned reader) const {
    return reader == 0 ? levels_.back() : readers_[reader].transaction;
}

int library_subject::open_database(MDB_txn* transaction, unsigned database, unsigned flags, MDB_dbi& handle) const {
    const database_kind& kind = kind_of(database);
    int code = lmdb_.dbi_open(transaction, database_name(database).c_str(), kind.flags | flags, &handle);
    if (code == 0 && kind.custom_order) {
        code = lmdb_.set_compare(transaction, handle, compare_lengths_first);
        if (code == 0 && kind.sorts_duplicates()) {
            code = lmdb_.set_dupsort(transaction, handle, compare_lengths_first);
        }
    }
    return code;
}

outcome library_subject::perform(const command& called) {
    switch (called.what) {
        case action::reopen: return reopen(called);
        case action::copy: return copy(called);
        case action::begin:
        case action::commit:
        case action::abort:
        case action::read_begin:
        case action::read_reset:
        case action::read_renew:
        case action::read_abort: return begin_or_end(called);
        case action::put:
        case action::del:
        case action::misuse_parent: return put(called);
        case action::empty:
        case action::remove:
        case action::open_database: return handle(called);
        case action::cursor_open:
        case action::cursor_close:
        case action::cursor_renew: return cursor_handle(called);
        case action::cursor_get: return cursor_get(called);
        case action::cursor_put: return cursor_put(called);
        case action::cursor_del: return just(lmdb_.cursor_del(cursors_.at(called.cursor).handle, called.flags));
        case action::put_multiple: return put_multiple(called);
        case action::get_multiple: return get_multiple(called);
        default: return read(called);
    }
}

outcome library_subject::reopen(const command& called) {
    lmdb_.env_close(std::exchange(environment_, nullptr));
    environment_ = open_environment(directory_, flags_);
    MDB_txn* transaction = nullptr;
    int code = lmdb_.txn_begin(environment_, nullptr, 0, &transaction);
    for (const char database : called.key) {
        if (code == 0) {
            const auto number = static_cast<unsigned char>(database);
            code = open_database(transaction, number, called.flags, handles_[number]);
        }
    }
    if (code != 0) {
        lmdb_.txn_abort(transaction);
        return just(code);
    }
    return just(lmdb_.txn_commit(transaction));
}

outcome library_subject::copy(const command& called) {
    const std::string directory = directory_ + "/copy" + std::to_string(copies_++);
    std::filesystem::create_directory(directory);
    int code = lmdb_.env_copy2(environment_, directory.c_str(), called.flags);
    if (code != 0) {
        return just(code);
    }
    MDB_env* const made = open_environment(directory, MDB_RDONLY);
    MDB_txn* transaction = nullptr;
    code = lmdb_.txn_begin(made, nullptr, MDB_RDONLY, &transaction);
    outcome found = just(code);
    found.data = "";
    for (const char database : called.key) {
        MDB_dbi opened = 0;
        code = code == 0 ? open_database(transaction, static_cast<unsigned char>(database), 0, opened) : code;
        if (code == 0) {
            *found.data += scan(transaction, opened).data.value_or("cannot be read") + "; ";
        }
    }
    lmdb_.txn_abort(transaction);
    lmdb_.env_close(made);
    std::filesystem::remove_all(directory);
    found.code = code;
    return found;
}

void library_subject::hold(unsigned reader, const MDB_val& value) {
    if (reader != 0 && readers_[reader].held.size() < 64) {
        readers_[reader].held.push_back({value.mv_data, copied(value)});
    }
}

bool library_subject::held_values_are_intact(reader_state& reader) const {
    bool intact = true;
    for (const held_value& one : reader.held) {
        intact = intact && std::memcmp(one.at, one.bytes.data(), one.bytes.size()) == 0;
    }
    reader.held.clear();
    return intact;
}

outcome library_subject::begin_or_end(const command& called) {
    reader_state& reader = readers_[called.reader];
    const auto finish_reader = [&](auto how) {
        const bool intact = held_values_are_intact(reader);
        how(reader.transaction);
        return just(intact ? 0 : EFAULT);
    };
    switch (called.what) {
        case action::begin: {
            MDB_txn* made = nullptr;
            const int code = lmdb_.txn_begin(environment_, levels_.empty() ? nullptr : levels_.back(), 0, &made);
            if (code == 0) {
                levels_.push_back(made);
            }
            return just(code);
        }
        case action::commit:
        case action::abort: {
            std::erase_if(cursors_, [&](const auto& one) { return one.second.level == levels_.size(); });
            MDB_txn* const ended = levels_.back();
            levels_.pop_back();
            if (called.what == action::commit) {
                return just(lmdb_.txn_commit(ended));
            }
            lmdb_.txn_abort(ended);
            return just(0);
        }
        case action::read_begin: return just(lmdb_.txn_begin(environment_, nullptr, MDB_RDONLY, &reader.transaction));
        case action::read_renew: return just(lmdb_.txn_renew(reader.transaction));
        case action::read_reset: return finish_reader([&](MDB_txn* ended) { lmdb_.txn_reset(ended); });
        default: {
            outcome found = finish_reader([&](MDB_txn* ended) { lmdb_.txn_abort(ended); });
            reader.transaction = nullptr;
            return found;
        }
    }
}

outcome library_subject::put(const command& called) {
    MDB_val key = value_of(called.key);
    MDB_val data = value_of(called.data);
    const MDB_dbi database = handles_[called.database];
    if (called.what == action::misuse_parent) {
        return just(lmdb_.put(levels_[levels_.size() - 2], database, &key, &data, 0));
    }
    MDB_txn* const transaction = transaction_of(called.reader);
    if (called.what == action::del) {
        return just(lmdb_.del(transaction, database, &key, called.has_data ? &data : nullptr));
    }
    if ((called.flags & MDB_RESERVE) != 0) {
        data.mv_data = nullptr;
    }
    outcome found = just(lmdb_.put(transaction, database, &key, &data, called.flags));
    if (found.code == 0 && (called.flags & MDB_RESERVE) != 0 && !called.data.empty()) {
        std::memcpy(data.mv_data, called.data.data(), called.data.size());
    }
    found.data = data.mv_data == nullptr ? "" : copied(data);
    return found;
}

outcome library_subject::handle(const command& called) {
    MDB_dbi& handle = handles_[called.database];
    switch (called.what) {
        case action::empty: return just(lmdb_.drop(levels_.back(), handle, 0));
        case action::remove: return just(lmdb_.drop(levels_.back(), handle, 1));
        default: return just(open_database(levels_.back(), called.database, called.flags, handle));
    }
}

outcome library_subject::scan(MDB_txn* transaction, MDB_dbi database) const {
    MDB_cursor* opened = nullptr;
    int code = lmdb_.cursor_open(transaction, database, &opened);
    if (code != 0) {
        return just(code);
    }
    MDB_val key{};
    MDB_val data{};
    std::vector<std::pair<std::string, std::string>> items;
    item_sum sum;
    while ((code = lmdb_.cursor_get(opened, &key, &data, MDB_NEXT)) == 0) {
        items.emplace_back(copied(key), copied(data));
        sum.add(items.back().first, items.back().second);
    }
    outcome found = just(code == MDB_NOTFOUND ? 0 : code);
    found.data = sum.text();
    found.number = items.size();
    for (code = lmdb_.cursor_get(opened, &key, &data, MDB_LAST); code == 0;
         code = lmdb_.cursor_get(opened, &key, &data, MDB_PREV)) {
        if (items.empty() || items.back().first != bytes_of(key) || items.back().second != bytes_of(data)) {
            break;
        }
        items.pop_back();
    }
    if (code != MDB_NOTFOUND || !items.empty()) {
        found.data = "other items backwards than forwards";
    }
    lmdb_.cursor_close(opened);
    return found;
}

outcome library_subject::read(const command& called) {
    MDB_val key = value_of(called.key);
    MDB_val data = value_of(called.data);
    if (called.what == action::cursor_count) {
        std::size_t count = 0;
        outcome found = just(lmdb_.cursor_count(cursors_.at(called.cursor).handle, &count));
        found.number = count;
        return found;
    }
    MDB_txn* const transaction = transaction_of(called.reader);
    const MDB_dbi database = handles_[called.database];
    switch (called.what) {
        case action::get: {
            outcome found = just(lmdb_.get(transaction, database, &key, &data));
            if (found.code == 0) {
                found.data = copied(data);
                hold(called.reader, data);
            }
            return found;
        }
        case action::entries: {
            MDB_stat numbers{};
            outcome found = just(lmdb_.stat(transaction, database, &numbers));
            found.number = numbers.ms_entries;
            return found;
        }
        case action::compare: {
            outcome found = just(0);
            const int sign = called.flags != 0 ? lmdb_.dcmp(transaction, database, &key, &data)
                                               : lmdb_.cmp(transaction, database, &key, &data);
            found.number = sign < 0 ? 0U : sign > 0 ? 2U : 1U;
            return found;
        }
        default: return scan(transaction, database);
    }
}

outcome library_subject::cursor_handle(const command& called) {
    if (called.what == action::cursor_open) {
        MDB_cursor* made = nullptr;
        const int code = lmdb_.cursor_open(transaction_of(called.reader), handles_[called.database], &made);
        if (code == 0) {
            cursors_[called.cursor] = {made, called.reader == 0 ? levels_.size() : 0};
        }
        return just(code);
    }
    const auto used = cursors_.find(called.cursor);
    if (called.what == action::cursor_renew) {
        return just(lmdb_.cursor_renew(transaction_of(called.flags), used->second.handle));
    }
    lmdb_.cursor_close(used->second.handle);
    cursors_.erase(used);
    return just(0);
}

outcome library_subject::cursor_get(const command& called) {
    MDB_val key = value_of(called.key);
    MDB_val data = value_of(called.data);
    outcome found = just(
        lmdb_.cursor_get(cursors_.at(called.cursor).handle, &key, &data, static_cast<MDB_cursor_op>(called.flags)));
    if (found.code == 0) {
        found.key = copied(key);
        found.data = copied(data);
        hold(called.reader, data);
    }
    return found;
}

outcome library_subject::cursor_put(const command& called) {
    MDB_val key = value_of(called.key);
    MDB_val data = value_of(called.data);
    outcome found = just(lmdb_.cursor_put(cursors_.at(called.cursor).handle, &key, &data, called.flags));
    if (found.code == 0 && (called.flags & MDB_RESERVE) != 0 && !called.data.empty()) {
        std::memcpy(data.mv_data, called.data.data(), called.data.size());
    }
    return found;
}

outcome library_subject::put_multiple(const command& called) {
    const std::size_t size = kind_of(called.database).data_bytes;
    MDB_val key = value_of(called.key);
    MDB_val data[2] = {value_of(called.data), {called.data.size() / size, nullptr}};
    data[0].mv_size = size;
    outcome found = just(lmdb_.cursor_put(cursors_.at(called.cursor).handle, &key, data, MDB_MULTIPLE));
    found.number = data[1].mv_size;
    return found;
}

outcome library_subject::get_multiple(const command& called) {
    MDB_cursor* opened = nullptr;
    int code = lmdb_.cursor_open(transaction_of(called.reader), handles_[called.database], &opened);
    if (code != 0) {
        return just(code);
    }
    MDB_val key = value_of(called.key);
    MDB_val data{};
    outcome found = just(lmdb_.cursor_get(opened, &key, &data, MDB_SET));
    if (found.code == 0) {
        std::string all;
        for (code = lmdb_.cursor_get(opened, &key, &data, MDB_GET_MULTIPLE); code == 0;
             code = lmdb_.cursor_get(opened, &key, &data, MDB_NEXT_MULTIPLE)) {
            all += bytes_of(data);
        }
        found.data = code == MDB_NOTFOUND ? all : error_name(code);
    }
    lmdb_.cursor_close(opened);
    return found;
}

}  // namespace holdfast::test
