// LMDB's functions, of whichever library a test names: ours and Debian's have the same soname and the same symbols, so
// each is loaded by its path, with its symbols for itself alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lmdb.h>

#define HF_LMDB_DATABASE(F) \
    F(version)              \
    F(strerror)             \
    F(dbi_open)             \
    F(stat)                 \
    F(dbi_flags)            \
    F(dbi_close)            \
    F(drop)                 \
    F(set_compare)          \
    F(set_dupsort)          \
    F(set_relfunc)
#define HF_LMDB_DATABASE_2(F) \
    F(set_relctx)             \
    F(get)                    \
    F(put)                    \
    F(del)                    \
    F(cmp)                    \
    F(dcmp)                   \
    F(reader_list)            \
    F(reader_check)
#define HF_LMDB_ENVIRONMENT(F) \
    F(env_create)              \
    F(env_open)                \
    F(env_copy)                \
    F(env_copyfd)              \
    F(env_copy2)               \
    F(env_copyfd2)             \
    F(env_stat)                \
    F(env_info)                \
    F(env_sync)                \
    F(env_close)
#define HF_LMDB_ENVIRONMENT_2(F) \
    F(env_set_flags)             \
    F(env_get_flags)             \
    F(env_get_path)              \
    F(env_get_fd)                \
    F(env_set_mapsize)           \
    F(env_set_maxreaders)        \
    F(env_get_maxreaders)        \
    F(env_set_maxdbs)            \
    F(env_get_maxkeysize)        \
    F(env_set_userctx)
#define HF_LMDB_ENVIRONMENT_3(F) \
    F(env_get_userctx)           \
    F(env_set_assert)
#define HF_LMDB_TRANSACTION(F) \
    F(txn_begin)               \
    F(txn_env)                 \
    F(txn_id)                  \
    F(txn_commit)              \
    F(txn_abort)               \
    F(txn_reset)               \
    F(txn_renew)
#define HF_LMDB_CURSOR(F) \
    F(cursor_open)        \
    F(cursor_close)       \
    F(cursor_renew)       \
    F(cursor_txn)         \
    F(cursor_dbi)         \
    F(cursor_get)         \
    F(cursor_put)         \
    F(cursor_del)         \
    F(cursor_count)
#define HF_LMDB_FUNCTIONS(F) \
    HF_LMDB_DATABASE(F)      \
    HF_LMDB_DATABASE_2(F)    \
    HF_LMDB_ENVIRONMENT(F)   \
    HF_LMDB_ENVIRONMENT_2(F) \
    HF_LMDB_ENVIRONMENT_3(F) \
    HF_LMDB_TRANSACTION(F)   \
    HF_LMDB_CURSOR(F)

namespace holdfast::test {

/// The functions of one library, without their prefix. The library stays loaded for good: its threads' destructors may
/// run later than any of ours.
struct lmdb_library {
    /// Throws std::runtime_error where the library or a function of it is not there. `program_first`: a function of the
    /// C library that the program defines itself is the program's for the library, too. That holds for a file that was
    /// not loaded before.
    explicit lmdb_library(std::string library_path, bool program_first = false);

    std::string path;
#define HF_MEMBER(name) decltype(&::mdb_##name) name = nullptr;
    HF_LMDB_FUNCTIONS(HF_MEMBER)
#undef HF_MEMBER
    int (*set_maxkeysize)(MDB_env*, unsigned) = nullptr;   ///< hf_lmdb_set_maxkeysize, which ours has; else null
    int (*emulate_persistent_memory)(MDB_env*) = nullptr;  ///< the same
};

/// A library that tests run on: "debian" or "holdfast".
struct named_library {
    std::string name;
    std::string path;
};

/// The libraries that are there: Debian's liblmdb0, and ours where it is built.
[[nodiscard]] const std::vector<named_library>& lmdb_libraries();
/// Of that name; loaded once. Throws std::runtime_error where there is none.
[[nodiscard]] const lmdb_library& lmdb(std::string_view name);
[[nodiscard]] bool has_lmdb(std::string_view name);

[[nodiscard]] inline MDB_val value_of(std::string_view bytes) noexcept {
    return {bytes.size(), const_cast<char*>(bytes.data())};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}
[[nodiscard]] inline std::string_view bytes_of(const MDB_val& value) noexcept {
    return {static_cast<const char*>(value.mv_data), value.mv_size};
}

/// "MDB_NOTFOUND", "EINVAL", ...
[[nodiscard]] std::string error_name(int code);

}  // namespace holdfast::test
