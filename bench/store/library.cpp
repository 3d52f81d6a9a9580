#include "store/library.hpp"

#include <stdexcept>

#include <dlfcn.h>

namespace bench {

store_library::store_library(const std::string& path) {
    void* const loaded = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (loaded == nullptr) {
        throw std::runtime_error(::dlerror());
    }
    const auto find = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(loaded, name));
        if (function == nullptr) {
            throw std::runtime_error(path + " has no " + name);
        }
    };
    find(strerror, "mdb_strerror");
    find(env_create, "mdb_env_create");
    find(env_set_mapsize, "mdb_env_set_mapsize");
    find(env_open, "mdb_env_open");
    find(env_sync, "mdb_env_sync");
    find(env_close, "mdb_env_close");
    find(txn_begin, "mdb_txn_begin");
    find(txn_commit, "mdb_txn_commit");
    find(txn_abort, "mdb_txn_abort");
    find(dbi_open, "mdb_dbi_open");
    find(get, "mdb_get");
    find(put, "mdb_put");
    find(del, "mdb_del");
    find(cursor_open, "mdb_cursor_open");
    find(cursor_get, "mdb_cursor_get");
    find(cursor_close, "mdb_cursor_close");
    emulate_persistent_memory =
        reinterpret_cast<decltype(emulate_persistent_memory)>(::dlsym(loaded, "hf_lmdb_emulate_persistent_memory"));
}

void store_library::check(int code) const {
    if (code != 0) {
        throw std::runtime_error(strerror(code));
    }
}

}  // namespace bench
