// LMDB's codes, or an error number of the system.
#pragma once

#include <cerrno>

#include "store/lmdb_header.hpp"

namespace holdfast::store_engine {

enum class [[nodiscard]] status : int {
    ok = MDB_SUCCESS,
    key_exists = MDB_KEYEXIST,
    not_found = MDB_NOTFOUND,
    page_not_found = MDB_PAGE_NOTFOUND,
    corrupted = MDB_CORRUPTED,
    panic = MDB_PANIC,
    version_mismatch = MDB_VERSION_MISMATCH,
    invalid_file = MDB_INVALID,
    map_full = MDB_MAP_FULL,
    databases_full = MDB_DBS_FULL,
    readers_full = MDB_READERS_FULL,
    map_resized = MDB_MAP_RESIZED,
    incompatible = MDB_INCOMPATIBLE,
    bad_reader_slot = MDB_BAD_RSLOT,
    bad_transaction = MDB_BAD_TXN,
    bad_value_size = MDB_BAD_VALSIZE,
    bad_database = MDB_BAD_DBI,
    invalid_argument = EINVAL,
    access_denied = EACCES,
    no_memory = ENOMEM,
    replaced = ESTALE,           ///< the data file is another than that of the processes which have the store open
    other_medium = EMEDIUMTYPE,  ///< who has the store open makes commits durable as this process cannot, or would not
    in_use = EBUSY,              ///< by others, and this process may not write the lock file to say that it reads
};

[[nodiscard]] inline status from_errno(int error) noexcept { return static_cast<status>(error == 0 ? EIO : error); }
[[nodiscard]] inline status last_error() noexcept { return from_errno(errno); }
/// Of the limit, of the file system, of a quota, or of `ulimit -f`.
[[nodiscard]] inline bool is_no_room(status what) noexcept {
    return what == status::map_full || what == from_errno(ENOSPC) || what == from_errno(EDQUOT) ||
           what == from_errno(EFBIG);
}
[[nodiscard]] constexpr int code_of(status what) noexcept { return static_cast<int>(what); }

}  // namespace holdfast::store_engine

// Returns from the enclosing function unless the expression is ok.
#define HF_STORE_TRY(expression)                                                   \
    do {                                                                           \
        if (const ::holdfast::store_engine::status hf_store_status = (expression); \
            hf_store_status != ::holdfast::store_engine::status::ok) {             \
            return hf_store_status;                                                \
        }                                                                          \
    } while (false)
