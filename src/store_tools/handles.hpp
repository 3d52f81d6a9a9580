// Handles of LMDB's interface that end with their scope, and errors that are thrown.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <lmdb.h>

namespace holdfast_store_tools {

/// what(): "mdb_env_open failed, error 2 No such file or directory".
class call_failure : public std::runtime_error {
public:
    call_failure(const std::string& call, int code)
        : std::runtime_error(call + " failed, error " + std::to_string(code) + " " + mdb_strerror(code)), code_(code) {}
    [[nodiscard]] int code() const noexcept { return code_; }

private:
    int code_;
};

inline void expect_success(const char* call, int code) {
    if (code != 0) {
        throw call_failure(call, code);
    }
}

[[nodiscard]] inline MDB_val value_of(std::string_view bytes) noexcept {
    return {bytes.size(), const_cast<char*>(bytes.data())};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}
[[nodiscard]] inline std::string_view bytes_of(const MDB_val& value) noexcept {
    return {static_cast<const char*>(value.mv_data), value.mv_size};
}

/// Beside the flags of mdb_env_open().
struct environment_limits {
    std::size_t map_size = 0;  ///< bytes; 0: the library's default
    unsigned readers = 0;      ///< 0: the library's default
    MDB_dbi databases = 2;
    bool long_keys = false;  ///< keys may be as long as the library takes
};

class environment {
public:
    /// Throws call_failure.
    environment(const std::string& path, unsigned flags, const environment_limits& limits = {}) {
        expect_success("mdb_env_create", mdb_env_create(&handle_));
        try {
            if (limits.map_size != 0) {
                expect_success("mdb_env_set_mapsize", mdb_env_set_mapsize(handle_, limits.map_size));
            }
            if (limits.readers != 0) {
                expect_success("mdb_env_set_maxreaders", mdb_env_set_maxreaders(handle_, limits.readers));
            }
#ifdef HF_LMDB_MOST_KEYSIZE  // LMDB's own library has a fixed one
            if (limits.long_keys) {
                expect_success("hf_lmdb_set_maxkeysize", hf_lmdb_set_maxkeysize(handle_, HF_LMDB_MOST_KEYSIZE));
            }
#endif
            expect_success("mdb_env_set_maxdbs", mdb_env_set_maxdbs(handle_, limits.databases));
            expect_success("mdb_env_open", mdb_env_open(handle_, path.c_str(), flags, 0664));
        } catch (...) {
            mdb_env_close(handle_);
            throw;
        }
    }
    environment(const environment&) = delete;
    environment& operator=(const environment&) = delete;
    ~environment() { mdb_env_close(handle_); }
    [[nodiscard]] MDB_env* get() const noexcept { return handle_; }

private:
    MDB_env* handle_ = nullptr;
};

/// Without an effect unless it is committed.
class transaction {
public:
    /// Throws call_failure.
    explicit transaction(const environment& of, unsigned flags = 0) : transaction(of.get(), flags) {}
    explicit transaction(MDB_env* of, unsigned flags = 0) {
        expect_success("mdb_txn_begin", mdb_txn_begin(of, nullptr, flags, &handle_));
    }
    transaction(const transaction&) = delete;
    transaction& operator=(const transaction&) = delete;
    ~transaction() {
        if (handle_ != nullptr) {
            mdb_txn_abort(handle_);
        }
    }
    void commit() { expect_success("mdb_txn_commit", mdb_txn_commit(std::exchange(handle_, nullptr))); }
    [[nodiscard]] MDB_txn* get() const noexcept { return handle_; }

private:
    MDB_txn* handle_ = nullptr;
};

/// Of a transaction that only reads.
class reading_cursor {
public:
    /// Throws call_failure.
    reading_cursor(const transaction& in, MDB_dbi database) {
        expect_success("mdb_cursor_open", mdb_cursor_open(in.get(), database, &handle_));
    }
    reading_cursor(const reading_cursor&) = delete;
    reading_cursor& operator=(const reading_cursor&) = delete;
    ~reading_cursor() { mdb_cursor_close(handle_); }
    /// False at the end. Throws call_failure.
    bool move(MDB_val& key, MDB_val& data, MDB_cursor_op op = MDB_NEXT) {
        const int code = mdb_cursor_get(handle_, &key, &data, op);
        if (code != 0 && code != MDB_NOTFOUND) {
            throw call_failure("mdb_cursor_get", code);
        }
        return code == 0;
    }

private:
    MDB_cursor* handle_ = nullptr;
};

}  // namespace holdfast_store_tools
