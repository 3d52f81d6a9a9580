// What tests of the store share: environments in directories that are removed, and values as strings.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <holdfast/detail/store_in_heap.h>

#include "store/lmdb_header.hpp"

namespace holdfast::store_engine {

/// An empty directory, removed at the end; by default on the disk of the tests' working directory.
class store_directory {
public:
    explicit store_directory(const std::filesystem::path& parent = std::filesystem::current_path()) {
        std::string pattern = (parent / "store-XXXXXX").string();
        path_ = ::mkdtemp(pattern.data()) != nullptr ? pattern : std::string();
    }
    store_directory(const store_directory&) = delete;
    store_directory& operator=(const store_directory&) = delete;
    ~store_directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] std::string data() const { return path_ + "/data.mdb"; }
    [[nodiscard]] std::string lock() const { return path_ + "/lock.mdb"; }

private:
    std::string path_;
};

inline MDB_val as_val(std::string_view text) noexcept { return {text.size(), const_cast<char*>(text.data())}; }
inline std::string_view as_view(const MDB_val& value) noexcept {
    return {static_cast<const char*>(value.mv_data), value.mv_size};
}

/// Beside the flags of an environment: its file counts as persistent memory.
inline constexpr unsigned on_persistent_memory = 1U << 31U;

class test_environment {
public:
    explicit test_environment(const std::string& path, unsigned flags = 0, MDB_dbi databases = 8,
                              std::size_t map_size = 0, unsigned longest_key = 0) {
        EXPECT_EQ(mdb_env_create(&env_), 0);
        EXPECT_EQ(mdb_env_set_maxdbs(env_, databases), 0);
        if (map_size != 0) {
            EXPECT_EQ(mdb_env_set_mapsize(env_, map_size), 0);
        }
        if (longest_key != 0) {
            EXPECT_EQ(hf_lmdb_set_maxkeysize(env_, longest_key), 0);
        }
        if ((flags & on_persistent_memory) != 0) {
            EXPECT_EQ(hf_lmdb_emulate_persistent_memory(env_), 0);
        }
        opened_ = mdb_env_open(env_, path.c_str(), flags & ~on_persistent_memory, 0664);
    }
    test_environment(const test_environment&) = delete;
    test_environment& operator=(const test_environment&) = delete;
    ~test_environment() { mdb_env_close(env_); }
    [[nodiscard]] MDB_env* get() const noexcept { return env_; }
    [[nodiscard]] int opened() const noexcept { return opened_; }

    [[nodiscard]] MDB_txn* begin(unsigned flags = 0, MDB_txn* outer = nullptr) const {
        MDB_txn* made = nullptr;
        EXPECT_EQ(mdb_txn_begin(env_, outer, flags, &made), 0);
        return made;
    }
    [[nodiscard]] MDB_dbi open(const char* name = nullptr, unsigned flags = 0) const {
        MDB_txn* in = begin();
        MDB_dbi database = 0;
        EXPECT_EQ(mdb_dbi_open(in, name, flags, &database), 0);
        EXPECT_EQ(mdb_txn_commit(in), 0);
        return database;
    }

private:
    MDB_env* env_ = nullptr;
    int opened_ = 0;
};

using content_of_store = std::map<std::string, std::string>;

/// Of the database without a name; the store must be sound.
inline content_of_store content_of(MDB_env* env) {
    content_of_store found;
    MDB_txn* in = nullptr;
    EXPECT_EQ(mdb_txn_begin(env, nullptr, MDB_RDONLY, &in), 0);
    MDB_cursor* at = nullptr;
    EXPECT_EQ(mdb_cursor_open(in, 1, &at), 0);
    MDB_val key{};
    MDB_val value{};
    int outcome = 0;
    while ((outcome = mdb_cursor_get(at, &key, &value, MDB_NEXT)) == 0) {
        found.emplace(as_view(key), as_view(value));
    }
    EXPECT_EQ(outcome, MDB_NOTFOUND);
    mdb_cursor_close(at);
    mdb_txn_abort(in);
    EXPECT_EQ(hf_lmdb_check(env, nullptr), 0);
    return found;
}

inline int put(MDB_txn* in, MDB_dbi database, std::string_view key, std::string_view value, unsigned flags = 0) {
    MDB_val k = as_val(key);
    MDB_val v = as_val(value);
    return mdb_put(in, database, &k, &v, flags);
}
/// The value, or the error's number as "error -30798".
inline std::string get(MDB_txn* in, MDB_dbi database, std::string_view key) {
    MDB_val k = as_val(key);
    MDB_val v{};
    const int outcome = mdb_get(in, database, &k, &v);
    return outcome == 0 ? std::string(as_view(v)) : "error " + std::to_string(outcome);
}
inline int del(MDB_txn* in, MDB_dbi database, std::string_view key) {
    MDB_val k = as_val(key);
    return mdb_del(in, database, &k, nullptr);
}
inline int del(MDB_txn* in, MDB_dbi database, std::string_view key, std::string_view value) {
    MDB_val k = as_val(key);
    MDB_val v = as_val(value);
    return mdb_del(in, database, &k, &v);
}

}  // namespace holdfast::store_engine
