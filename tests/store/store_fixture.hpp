// An environment in a scratch directory, for tests that run on each library with LMDB's interface.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/scratch_test_support.hpp"
#include "store/lmdb_library.hpp"

namespace holdfast::test {

inline void PrintTo(const named_library& one, std::ostream* out) { *out << one.name; }

/// As a name of a test's instance.
inline std::string name_of_library(const testing::TestParamInfo<named_library>& info) { return info.param.name; }

class store_test : public testing::TestWithParam<named_library> {
protected:
    using items = std::vector<std::pair<std::string, std::string>>;

    ~store_test() override { close(); }

    [[nodiscard]] std::string directory() const { return place_.path(); }
    [[nodiscard]] std::string path(const std::string& name) const { return place_.path(name); }

    /// Opens environment() in a directory of the scratch directory; `prepare` comes before.
    void open(unsigned flags = MDB_NOTLS, const std::function<void(MDB_env*)>& prepare = {}) {
        ASSERT_EQ(open_at(directory(), flags, prepare), 0);
    }
    int open_at(const std::string& at, unsigned flags, const std::function<void(MDB_env*)>& prepare = {}) {
        close();
        EXPECT_EQ(mdb.env_create(&environment_), 0);
        EXPECT_EQ(mdb.env_set_maxdbs(environment_, 16), 0);
        EXPECT_EQ(mdb.env_set_mapsize(environment_, std::size_t{64} << 20U), 0);
        if (prepare) {
            prepare(environment_);
        }
        return mdb.env_open(environment_, at.c_str(), flags, 0640);
    }
    void close() {
        if (environment_ != nullptr) {
            mdb.env_close(std::exchange(environment_, nullptr));
        }
    }
    [[nodiscard]] MDB_env* environment() const { return environment_; }

    [[nodiscard]] MDB_txn* begin(unsigned flags = 0, MDB_txn* parent = nullptr) {
        MDB_txn* made = nullptr;
        EXPECT_EQ(mdb.txn_begin(environment_, parent, flags, &made), 0);
        return made;
    }
    void commit(MDB_txn* transaction) { EXPECT_EQ(mdb.txn_commit(transaction), 0); }

    /// nullptr: the unnamed database.
    MDB_dbi database(MDB_txn* transaction, const char* name = nullptr, unsigned flags = 0) {
        MDB_dbi made = 0;
        EXPECT_EQ(mdb.dbi_open(transaction, name, flags, &made), 0);
        return made;
    }
    int put(MDB_txn* transaction, MDB_dbi into, const std::string& key, const std::string& data, unsigned flags = 0) {
        MDB_val k = value_of(key);
        MDB_val d = value_of(data);
        return mdb.put(transaction, into, &k, &d, flags);
    }
    int del(MDB_txn* transaction, MDB_dbi from, const std::string& key) {
        MDB_val k = value_of(key);
        return mdb.del(transaction, from, &k, nullptr);
    }
    int del(MDB_txn* transaction, MDB_dbi from, const std::string& key, const std::string& data) {
        MDB_val k = value_of(key);
        MDB_val d = value_of(data);
        return mdb.del(transaction, from, &k, &d);
    }
    /// The data, or the name of the error.
    [[nodiscard]] std::string get(MDB_txn* transaction, MDB_dbi from, const std::string& key) {
        MDB_val k = value_of(key);
        MDB_val d{};
        const int code = mdb.get(transaction, from, &k, &d);
        return code == 0 ? std::string(bytes_of(d)) : error_name(code);
    }
    [[nodiscard]] MDB_cursor* cursor(MDB_txn* transaction, MDB_dbi over) {
        MDB_cursor* made = nullptr;
        EXPECT_EQ(mdb.cursor_open(transaction, over, &made), 0);
        return made;
    }
    /// "key=data", or the name of the error.
    [[nodiscard]] std::string move(MDB_cursor* moved, MDB_cursor_op op, const std::string& key = "",
                                   const std::string& data = "") {
        MDB_val k = value_of(key);
        MDB_val d = value_of(data);
        const int code = mdb.cursor_get(moved, &k, &d, op);
        return code == 0 ? std::string(bytes_of(k)) + "=" + std::string(bytes_of(d)) : error_name(code);
    }
    [[nodiscard]] items all(MDB_txn* transaction, MDB_dbi of) {
        items found;
        MDB_cursor* const over = cursor(transaction, of);
        MDB_val k{};
        MDB_val d{};
        while (mdb.cursor_get(over, &k, &d, MDB_NEXT) == 0) {
            found.emplace_back(bytes_of(k), bytes_of(d));
        }
        mdb.cursor_close(over);
        return found;
    }

    const lmdb_library& mdb = lmdb(GetParam().name);  // NOLINT(readability-identifier-naming): as tests call it

private:
    base::scratch_directory place_;
    MDB_env* environment_ = nullptr;
};

}  // namespace holdfast::test
