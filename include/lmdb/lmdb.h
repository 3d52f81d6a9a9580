// LMDB's interface, version 0.9, over the store of Holdfast (docs/store.md).
//
// Programs of LMDB compile against this header or run, unchanged, on this library: names, values, structures and error
// codes are LMDB's. The documentation of LMDB 0.9 (http://www.lmdb.tech/doc/) is the contract, except here and in
// docs/store.md:
//  - A store that no process gave a size by mdb_env_set_mapsize grows as its file system allows.
//  - The table of readers grows; without mdb_env_set_maxreaders, to 16,384.
//  - Data files have a format of our own (docs/store-format.md). A file of LMDB is MDB_INVALID; with MDB_RDONLY it is
//    read into memory.
//  - Without MDB_NOSYNC, a commit is durable when mdb_txn_commit returns. With it, a loss of power may undo the commit,
//    and damages nothing that was durable before.
//
// Thread safety: as LMDB. An environment by any number of threads; a transaction by one at a time; a thread has at most
// one write transaction, and one read transaction unless MDB_NOTLS is set.
#pragma once

#include <sys/types.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef mode_t mdb_mode_t;
typedef int mdb_filehandle_t;

#define MDB_VERSION_MAJOR 0
#define MDB_VERSION_MINOR 9
#define MDB_VERSION_PATCH 24
#define MDB_VERINT(a, b, c) (((a) << 24) | ((b) << 16) | (c))
#define MDB_VERSION_FULL MDB_VERINT(MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH)
#define MDB_VERSION_DATE "Holdfast 0.1.0"
#define MDB_VERSTR(a, b, c, d) "LMDB " #a "." #b "." #c ": (" d ")"
#define MDB_VERFOO(a, b, c, d) MDB_VERSTR(a, b, c, d)
#define MDB_VERSION_STRING MDB_VERFOO(MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH, MDB_VERSION_DATE)

// NOLINTBEGIN(readability-identifier-naming,modernize-use-using): LMDB's names, in C.
typedef struct MDB_env MDB_env;
typedef struct MDB_txn MDB_txn;
typedef struct MDB_cursor MDB_cursor;
/// A database, in all transactions of the process.
typedef unsigned int MDB_dbi;

/// A key or a value. What the library returns is read-only, and valid until the next update or the transaction's end.
typedef struct MDB_val {
    size_t mv_size;  ///< bytes
    void* mv_data;
} MDB_val;

typedef int(MDB_cmp_func)(const MDB_val* a, const MDB_val* b);
typedef void(MDB_rel_func)(MDB_val* item, void* oldptr, void* newptr, void* relctx);
typedef void(MDB_assert_func)(MDB_env* env, const char* msg);
typedef int(MDB_msg_func)(const char* msg, void* ctx);

// Flags of an environment.
#define MDB_FIXEDMAP 0x01    // no effect
#define MDB_NOSUBDIR 0x4000  // the path is the data file; the lock file adds -lock
#define MDB_NOSYNC 0x10000   // a commit survives the process, not a loss of power
#define MDB_RDONLY 0x20000
#define MDB_NOMETASYNC 0x40000  // no effect: a commit costs one sync
#define MDB_WRITEMAP 0x80000    // what the library returns may be written to
#define MDB_MAPASYNC 0x100000   // with MDB_WRITEMAP as MDB_NOSYNC
#define MDB_NOTLS 0x200000
#define MDB_NOLOCK 0x400000
#define MDB_NORDAHEAD 0x800000
#define MDB_NOMEMINIT 0x1000000  // no effect: uninitialised memory is never written

// Flags of a database.
#define MDB_REVERSEKEY 0x02
#define MDB_DUPSORT 0x04
#define MDB_INTEGERKEY 0x08
#define MDB_DUPFIXED 0x10
#define MDB_INTEGERDUP 0x20
#define MDB_REVERSEDUP 0x40
#define MDB_CREATE 0x40000

// Flags of a write.
#define MDB_NOOVERWRITE 0x10
#define MDB_NODUPDATA 0x20
#define MDB_CURRENT 0x40
#define MDB_RESERVE 0x10000
#define MDB_APPEND 0x20000
#define MDB_APPENDDUP 0x40000
#define MDB_MULTIPLE 0x80000

#define MDB_CP_COMPACT 0x01  // of a copy; every copy is compact

typedef enum MDB_cursor_op {
    MDB_FIRST,
    MDB_FIRST_DUP,
    MDB_GET_BOTH,
    MDB_GET_BOTH_RANGE,
    MDB_GET_CURRENT,
    MDB_GET_MULTIPLE,
    MDB_LAST,
    MDB_LAST_DUP,
    MDB_NEXT,
    MDB_NEXT_DUP,
    MDB_NEXT_MULTIPLE,
    MDB_NEXT_NODUP,
    MDB_PREV,
    MDB_PREV_DUP,
    MDB_PREV_NODUP,
    MDB_SET,
    MDB_SET_KEY,
    MDB_SET_RANGE,
    MDB_PREV_MULTIPLE
} MDB_cursor_op;

// A positive error is one of the system (errno).
#define MDB_SUCCESS 0
#define MDB_KEYEXIST (-30799)
#define MDB_NOTFOUND (-30798)
#define MDB_PAGE_NOTFOUND (-30797)
#define MDB_CORRUPTED (-30796)
#define MDB_PANIC (-30795)
#define MDB_VERSION_MISMATCH (-30794)
#define MDB_INVALID (-30793)
#define MDB_MAP_FULL (-30792)
#define MDB_DBS_FULL (-30791)
#define MDB_READERS_FULL (-30790)
#define MDB_TLS_FULL (-30789)
#define MDB_TXN_FULL (-30788)
#define MDB_CURSOR_FULL (-30787)
#define MDB_PAGE_FULL (-30786)
#define MDB_MAP_RESIZED (-30785)
#define MDB_INCOMPATIBLE (-30784)
#define MDB_BAD_RSLOT (-30783)
#define MDB_BAD_TXN (-30782)
#define MDB_BAD_VALSIZE (-30781)
#define MDB_BAD_DBI (-30780)
#define MDB_LAST_ERRCODE MDB_BAD_DBI

typedef struct MDB_stat {
    unsigned int ms_psize;
    unsigned int ms_depth;
    size_t ms_branch_pages;
    size_t ms_leaf_pages;
    size_t ms_overflow_pages;
    size_t ms_entries;
} MDB_stat;

typedef struct MDB_envinfo {
    void* me_mapaddr;
    size_t me_mapsize;
    size_t me_last_pgno;
    size_t me_last_txnid;
    unsigned int me_maxreaders;
    unsigned int me_numreaders;
} MDB_envinfo;

#pragma GCC visibility push(default)

char* mdb_version(int* major, int* minor, int* patch);
char* mdb_strerror(int err);

int mdb_env_create(MDB_env** env);
int mdb_env_open(MDB_env* env, const char* path, unsigned int flags, mdb_mode_t mode);
int mdb_env_copy(MDB_env* env, const char* path);
int mdb_env_copyfd(MDB_env* env, mdb_filehandle_t fd);
int mdb_env_copy2(MDB_env* env, const char* path, unsigned int flags);
int mdb_env_copyfd2(MDB_env* env, mdb_filehandle_t fd, unsigned int flags);
int mdb_env_stat(MDB_env* env, MDB_stat* stat);
int mdb_env_info(MDB_env* env, MDB_envinfo* stat);
int mdb_env_sync(MDB_env* env, int force);
void mdb_env_close(MDB_env* env);
int mdb_env_set_flags(MDB_env* env, unsigned int flags, int onoff);
int mdb_env_get_flags(MDB_env* env, unsigned int* flags);
int mdb_env_get_path(MDB_env* env, const char** path);
int mdb_env_get_fd(MDB_env* env, mdb_filehandle_t* fd);
int mdb_env_set_mapsize(MDB_env* env, size_t size);
int mdb_env_set_maxreaders(MDB_env* env, unsigned int readers);
int mdb_env_get_maxreaders(MDB_env* env, unsigned int* readers);
int mdb_env_set_maxdbs(MDB_env* env, MDB_dbi dbs);
int mdb_env_get_maxkeysize(MDB_env* env);
int mdb_env_set_userctx(MDB_env* env, void* ctx);
void* mdb_env_get_userctx(MDB_env* env);
int mdb_env_set_assert(MDB_env* env, MDB_assert_func* func);

int mdb_txn_begin(MDB_env* env, MDB_txn* parent, unsigned int flags, MDB_txn** txn);
MDB_env* mdb_txn_env(MDB_txn* txn);
size_t mdb_txn_id(MDB_txn* txn);
int mdb_txn_commit(MDB_txn* txn);
void mdb_txn_abort(MDB_txn* txn);
void mdb_txn_reset(MDB_txn* txn);
int mdb_txn_renew(MDB_txn* txn);

#define mdb_open(txn, name, flags, dbi) mdb_dbi_open(txn, name, flags, dbi)
#define mdb_close(env, dbi) mdb_dbi_close(env, dbi)
int mdb_dbi_open(MDB_txn* txn, const char* name, unsigned int flags, MDB_dbi* dbi);
int mdb_stat(MDB_txn* txn, MDB_dbi dbi, MDB_stat* stat);
int mdb_dbi_flags(MDB_txn* txn, MDB_dbi dbi, unsigned int* flags);
void mdb_dbi_close(MDB_env* env, MDB_dbi dbi);
int mdb_drop(MDB_txn* txn, MDB_dbi dbi, int del);
int mdb_set_compare(MDB_txn* txn, MDB_dbi dbi, MDB_cmp_func* cmp);
int mdb_set_dupsort(MDB_txn* txn, MDB_dbi dbi, MDB_cmp_func* cmp);
int mdb_set_relfunc(MDB_txn* txn, MDB_dbi dbi, MDB_rel_func* rel);
int mdb_set_relctx(MDB_txn* txn, MDB_dbi dbi, void* ctx);

int mdb_get(MDB_txn* txn, MDB_dbi dbi, MDB_val* key, MDB_val* data);
int mdb_put(MDB_txn* txn, MDB_dbi dbi, MDB_val* key, MDB_val* data, unsigned int flags);
int mdb_del(MDB_txn* txn, MDB_dbi dbi, MDB_val* key, MDB_val* data);

int mdb_cursor_open(MDB_txn* txn, MDB_dbi dbi, MDB_cursor** cursor);
void mdb_cursor_close(MDB_cursor* cursor);
int mdb_cursor_renew(MDB_txn* txn, MDB_cursor* cursor);
MDB_txn* mdb_cursor_txn(MDB_cursor* cursor);
MDB_dbi mdb_cursor_dbi(MDB_cursor* cursor);
int mdb_cursor_get(MDB_cursor* cursor, MDB_val* key, MDB_val* data, MDB_cursor_op op);
int mdb_cursor_put(MDB_cursor* cursor, MDB_val* key, MDB_val* data, unsigned int flags);
int mdb_cursor_del(MDB_cursor* cursor, unsigned int flags);
int mdb_cursor_count(MDB_cursor* cursor, size_t* countp);

int mdb_cmp(MDB_txn* txn, MDB_dbi dbi, const MDB_val* a, const MDB_val* b);
int mdb_dcmp(MDB_txn* txn, MDB_dbi dbi, const MDB_val* a, const MDB_val* b);
int mdb_reader_list(MDB_env* env, MDB_msg_func* func, void* ctx);
int mdb_reader_check(MDB_env* env, int* dead);

// Ours alone.

/// Lets keys, and names of databases, have up to `bytes`, from 511 (what programs expect of mdb_env_get_maxkeysize) to
/// 65,536; values of MDB_DUPSORT as many, up to 1,978. Before mdb_env_open, by each process that writes longer keys;
/// reading and removing them needs no call. Programs that know only version 4 refuse the store from the first key of
/// more than 1,978 bytes on. EINVAL outside of the range or where the environment is open.
#define HF_LMDB_MOST_KEYSIZE 65536
int hf_lmdb_set_maxkeysize(MDB_env* env, unsigned int bytes);

/// Checks every page that the last commit reaches: checksums, structure, order of keys, counts, and that no page is
/// used twice or free. `pages`, unless null, is how many were looked at; meanwhile another thread may read it with a
/// relaxed atomic load. MDB_CORRUPTED where anything is wrong. Writers and readers go on. Databases with a comparator
/// of the caller need it set.
int hf_lmdb_check(MDB_env* env, size_t* pages);

/// Of a store that is open, at one moment; other processes go on.
typedef struct hf_lmdb_activity {
    uint64_t last_txnid;      ///< the last commit that a new reader sees
    uint64_t synced_txnid;    ///< the last that survives a loss of power; 0 on tmpfs
    uint64_t oldest_txnid;    ///< that a transaction reads; last_txnid where none reads
    uint64_t log_bytes;       ///< records since the last checkpoint
    uint64_t log_room_bytes;  ///< of the log in the file, the records among them
    unsigned int readers;     ///< transactions that read now
} hf_lmdb_activity;
/// Takes no lock, and may be called by any thread. EINVAL where the environment is not open, or a child of fork().
int hf_lmdb_activity_of(MDB_env* env, hf_lmdb_activity* activity);

/// FREE: for the next transaction. OLD: of a version that may still be read, or, where another process writes, perhaps
/// free. LONG: long values and keys.
enum { HF_LMDB_FREE, HF_LMDB_OLD, HF_LMDB_LONG, HF_LMDB_LEAF, HF_LMDB_META, HF_LMDB_BRANCH, HF_LMDB_LOG };
typedef struct hf_lmdb_extent {
    uint64_t page;
    uint64_t pages;
    uint64_t backed_pages;  ///< with content on disk
    unsigned int kind;
    unsigned int used_bytes;  ///< of a leaf, an extent by itself: header and entries
} hf_lmdb_extent;
/// Calls `visit` for all pages of the file in order, as of the last commit, until it returns another value than 0,
/// which this returns. Reads every page before, and fails as hf_lmdb_check does.
int hf_lmdb_map(MDB_env* env, int (*visit)(void* context, const hf_lmdb_extent* extent), void* context);

// NOLINTEND(readability-identifier-naming,modernize-use-using)

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
