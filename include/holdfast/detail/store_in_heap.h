/* Between a store and its heap (store_in_heap.hpp). A word of the heap has the number of the store's last commit that
 * counts. A commit is prepared, then the heap sets the word, then the commit counts or is taken back. */
#pragma once

#include <lmdb.h>
#include <stdint.h>

#pragma GCC visibility push(default)

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming,modernize-use-using) */

typedef struct hf_lmdb_heap {
    uint64_t accepted;    /* the heap's word */
    uint8_t identity[16]; /* of the store; a new one gets it */
    int keeps_at_once;    /* the word is durable when the heap has set it; else with the heap's next commit */
    /* Called by mdb_txn_commit() between the phases of a commit. 0: the word is `commit`; MDB_PANIC: that is not known;
     * all else: it is not, and mdb_txn_commit() returns this. */
    int (*accept)(void* context, uint64_t commit);
    void* context;
} hf_lmdb_heap;

/* As mdb_env_open(), for a store that only this process opens. Flags: MDB_RDONLY, MDB_NOSYNC, MDB_WRITEMAP and
 * MDB_NORDAHEAD. MDB_NOSYNC: a commit need not be durable before hf_lmdb_before_heap_commit(). */
int hf_lmdb_open_in_heap(MDB_env* env, const char* path, unsigned int flags, mdb_mode_t mode, const hf_lmdb_heap* heap);

/* Before the store is opened: its file counts as persistent memory, as the heap's domain `emulated` has it. A commit
 * writes lines back and fences, and makes no system call. Tests and benchmarks of stores outside of heaps may call it,
 * too. EINVAL: the environment is open. */
int hf_lmdb_emulate_persistent_memory(MDB_env* env);

/* The first phase of a commit. `commit`: its number, the heap's next word; 0: nothing has changed, and the transaction
 * has ended. On failure it is aborted. In all three cases mdb_txn_abort() frees it. */
int hf_lmdb_prepare(MDB_txn* txn, uint64_t* commit);
/* The second. `of_heap`: as accept() returns it. mdb_txn_abort() frees the transaction. */
int hf_lmdb_end_prepared(MDB_txn* txn, int of_heap);
/* Where the heap's memory is committed between the phases: its durable state has the commit. It counts from now on, and
 * other writers wait until hf_lmdb_end_prepared(txn, MDB_SUCCESS). Comes before hf_lmdb_after_heap_commit(). */
void hf_lmdb_accept_prepared(MDB_txn* txn);

/* Each write transaction, before it begins, calls begin(context), which may wait, and at its end end(context, begun)
 * with what that returned. Comes before the first transaction. */
void hf_lmdb_announce_writers(MDB_env* env, void* (*begin)(void* context), void (*end)(void* context, void* begun),
                              void* context);
/* Keeps writers out, also those of a sync, beside a commit of the heap's memory; a transaction of the calling thread
 * stays open. EBUSY: another thread writes. The same thread releases them. */
int hf_lmdb_try_hold_writers(MDB_env* env);
void hf_lmdb_release_writers(MDB_env* env);

/* Around a commit of the heap's memory, which has the word. A commit that this thread has prepared becomes durable with
 * it, and is not accepted yet; one of another thread does not exist, as its writer is kept out. */
int hf_lmdb_before_heap_commit(MDB_env* env);
void hf_lmdb_after_heap_commit(MDB_env* env);
/* Instead, after one that failed: a recovery of the heap may find its old state or the new one, so a transaction may
 * fail with EBUSY until a commit of the heap succeeds. */
void hf_lmdb_heap_commit_failed(MDB_env* env);
/* The heap is closed: nothing can be written any more; views stay as they are. */
void hf_lmdb_leave_heap(MDB_env* env);

/* NOLINTEND(readability-identifier-naming,modernize-use-using) */

#ifdef __cplusplus
}
#endif

#pragma GCC visibility pop
