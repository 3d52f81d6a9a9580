// A library with LMDB's interface, ours or Debian's: loaded by its path, in a process that measures it alone.
#pragma once

#include <string>

#include <lmdb.h>

namespace bench {

struct store_library {
    /// Throws std::runtime_error where the library, or a function of it, is not there.
    explicit store_library(const std::string& path);

    decltype(&::mdb_strerror) strerror = nullptr;
    decltype(&::mdb_env_create) env_create = nullptr;
    decltype(&::mdb_env_set_mapsize) env_set_mapsize = nullptr;
    decltype(&::mdb_env_open) env_open = nullptr;
    decltype(&::mdb_env_sync) env_sync = nullptr;
    decltype(&::mdb_env_close) env_close = nullptr;
    decltype(&::mdb_txn_begin) txn_begin = nullptr;
    decltype(&::mdb_txn_commit) txn_commit = nullptr;
    decltype(&::mdb_txn_abort) txn_abort = nullptr;
    decltype(&::mdb_dbi_open) dbi_open = nullptr;
    decltype(&::mdb_get) get = nullptr;
    decltype(&::mdb_put) put = nullptr;
    decltype(&::mdb_del) del = nullptr;
    decltype(&::mdb_cursor_open) cursor_open = nullptr;
    decltype(&::mdb_cursor_get) cursor_get = nullptr;
    decltype(&::mdb_cursor_close) cursor_close = nullptr;

    /// Of ours; null in LMDB.
    int (*emulate_persistent_memory)(MDB_env*) = nullptr;
    /// Environments are opened so: commits write back lines and fence.
    bool on_persistent_memory = false;

    /// Throws std::runtime_error where the call did not return 0.
    void check(int code) const;
};

}  // namespace bench
