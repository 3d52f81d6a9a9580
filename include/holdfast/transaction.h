/* Transactions of the C interface: changes of objects, blocks and roots that count together or not at all.
 *
 *     hf_transaction *tx = NULL;
 *     hf_begin(heap, &tx);
 *     struct account *a = hf_open_range(tx, heap_a, sizeof *a);  // a copy in DRAM
 *     struct account *b = hf_open_range(tx, heap_b, sizeof *b);
 *     if (a == NULL || b == NULL) { hf_abort(tx); return; }
 *     a->balance -= 10;
 *     b->balance += 10;
 *     hf_commit_transaction(tx);                                  // both are changed, or neither
 *
 * Nothing in the heap changes before the commit. In durability `atomic` the changes survive once hf_commit_transaction
 * has returned HF_OK. While a transaction is open, no other thread changes or opens the same memory; transactions alone
 * change words that transactions change. <holdfast/transaction.hpp> has the promises in full.
 *
 * Thread safety: a transaction belongs to one thread; any number of threads have one each. */
#pragma once

#include <holdfast/holdfast.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming,modernize-use-using): C. */

typedef struct hf_transaction hf_transaction;

/* hf_commit_transaction or hf_abort ends the transaction. While one is open, hf_close fails with HF_INVALID_ARGUMENT;
 * after hf_discard its calls fail so, too, and the memory of the heap's handle is kept. HF_READ_ONLY for a heap opened
 * so. */
hf_code hf_begin(hf_heap* heap, hf_transaction** transaction);
/* Begins a part: the next hf_abort drops what was done since; the next hf_commit_transaction hands it to the part
 * around it. Parts may contain parts. */
hf_code hf_begin_inner(hf_transaction* transaction);

/* The copy in which the transaction reads and writes `bytes` bytes at `begin`, aligned to 16 and valid until the
 * transaction ends. Each call for a range returns one and the same copy, and `begin` itself in a block that the
 * transaction has made. An hf_ptr in the copy is read by hf_ptr_get_in and set by hf_ptr_set_in. HF_BAD_ADDRESS unless
 * the bytes lie in the heap at a multiple of 8, HF_INVALID_ARGUMENT where `begin` was opened with another size. Where
 * ranges overlap, the commit fails with HF_INVALID_ARGUMENT. */
void* hf_open_range(hf_transaction* transaction, void* begin, size_t bytes);
/* The target of a pointer in a copy, in a new block, or in the heap as it was before the transaction. */
void* hf_ptr_get_in(const hf_transaction* transaction, const hf_ptr* pointer);
/* Sets a pointer in a copy, in a new block, or, with the commit, in the heap: a root, for example. */
hf_code hf_ptr_set_in(hf_transaction* transaction, hf_ptr* pointer, const void* target);
/* Stores 8 bytes in a place that is not opened. Until the commit the place has the old value; a range that is opened
 * later has the new one. */
hf_code hf_store_in(hf_transaction* transaction, uint64_t* place, uint64_t value);

/* A block that becomes allocated with the commit: fill it, and let an object or a root point to it. `traits` may be
 * NULL. */
void* hf_allocate_in(hf_transaction* transaction, size_t bytes, const hf_traits* traits);
/* Frees a block with the commit, or at once if this transaction has made it; NULL is ignored. For anything else the
 * commit fails with HF_BAD_ADDRESS. */
hf_code hf_free_in(hf_transaction* transaction, void* block);

/* Carries everything out and ends the transaction, or hands the innermost part over. On failure nothing is changed, and
 * the transaction ends unless it was in a part. */
hf_code hf_commit_transaction(hf_transaction* transaction);
/* A committed transaction that need not be durable yet. {0, 0} is durable. */
typedef struct hf_ticket {
    uint64_t number;
    uint64_t batch;
} hf_ticket;
/* As hf_commit_transaction, but in the domain `disk` without waiting for the disk: durable when hf_sync of the ticket
 * has returned HF_OK, after a later hf_commit_transaction of this thread, or when the heap was closed. Until then only
 * ranges that transactions of this thread open show it, and the program keeps its locks (transaction::commit_later() in
 * <holdfast/transaction.hpp>). HF_INVALID_ARGUMENT while a part is open. `ticket` may not be NULL. */
hf_code hf_commit_later(hf_transaction* transaction, hf_ticket* ticket);
/* Waits until the transaction of the ticket and the earlier ones of its thread are durable. HF_POISONED where the disk
 * failed. */
hf_code hf_sync(hf_heap* heap, hf_ticket ticket);
/* Waits for the tickets of all threads. */
hf_code hf_sync_all(hf_heap* heap);
/* Drops and ends the innermost part or, where there is none, the transaction. NULL is ignored. */
void hf_abort(hf_transaction* transaction);

/* Transactions over everything, in durability `commit`: plain stores to the heap, blocks and objects.
 *
 *     if (hf_transact_begin(heap) == HF_OK) {
 *         counts[3] += 1;                                       // plain code
 *         hf_transact_end(heap);                                // durable: all of it
 *     }
 *
 * One thread of the process has a heap's turn; others wait for it in the order in which they came. The calls are for
 * the thread that began, and for its innermost transaction: one within another one is a part, which can be aborted
 * alone. A thread that ends within one aborts it; hf_close within one fails with HF_INVALID_ARGUMENT. */
/* HF_UNSUPPORTED in other durabilities, HF_READ_ONLY, HF_WRONG_PROCESS; HF_INVALID_ARGUMENT between hf_read_begin and
 * hf_read_end, or within a transaction of a heap with a later path; HF_CONCURRENT_MODIFICATION where a call or
 * transaction of another thread does not end for two seconds; HF_OUT_OF_MEMORY. */
hf_code hf_transact_begin(hf_heap* heap);
/* Durable on return, or, of a part, one with what is around it. On failure the heap is as it was at the begin, and the
 * transaction has ended: HF_NO_SPACE, after which the heap goes on; HF_POISONED, after which the next open tells. */
hf_code hf_transact_end(hf_heap* heap);
/* Durable after hf_sync of the ticket, or with the next commit of any thread. HF_INVALID_ARGUMENT in a part. */
hf_code hf_transact_end_later(hf_heap* heap, hf_ticket* ticket);
/* Without a transaction: takes the present state, under the rules of hf_commit, and returns before it is durable.
 * Threads may go on from then on; hf_sync of the ticket makes it durable, and so does the next commit or transaction.
 * Otherwise as manager::commit_later(), which says where it is hf_commit. `ticket` may not be NULL. */
hf_code hf_commit_heap_later(hf_heap* heap, hf_ticket* ticket);
/* Memory, blocks and names are as they were at the begin. */
hf_code hf_transact_abort(hf_heap* heap);
/* Between the two, no other thread is within such a transaction. Threads read side by side. */
hf_code hf_read_begin(hf_heap* heap);
hf_code hf_read_end(hf_heap* heap);

/* NOLINTEND(readability-identifier-naming,modernize-use-using) */

#ifdef __cplusplus
}
#endif
