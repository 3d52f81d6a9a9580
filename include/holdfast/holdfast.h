/* The C interface of Holdfast: a persistent heap in a directory, with opaque handles and error codes.
 *
 *     hf_heap *heap = NULL;
 *     if (hf_open_or_create("graph.hf", NULL, &heap) != HF_OK) { fprintf(stderr, "%s\n", hf_errormsg()); return 1; }
 *     int *counter = NULL;
 *     hf_object_find_or_create(heap, "counter", "int", sizeof *counter, 1, (void **)&counter, NULL);
 *     ++*counter;
 *     hf_close(heap);
 *
 * Conventions. A function that returns hf_code returns HF_OK or the code of the failure; a pointer or a number is NULL
 * or 0 on failure, with hf_errorcode(). hf_errormsg() describes the failure. Output arguments are written on success
 * only, and may be NULL only where the text says so. A NULL heap is HF_INVALID_ARGUMENT unless the text says otherwise.
 * No function aborts or throws. Sizes are in bytes, times in nanoseconds. Strings end in a 0; they are UTF-8 or any
 * other bytes. Later versions may append fields to structs; a field `size` lets programs work with them. A struct that
 * is "as" one of C++ has its fields.
 *
 * Durability `commit`: a crash leaves the heap exactly as the last hf_commit() or hf_close() left it. Durability
 * `collect`: after a crash, what the roots and the objects reach is allocated, the rest free. Durability `atomic`:
 * every allocation and free survives a crash when it has returned, some with the pointer to the block
 * (<holdfast/open_options.hpp> has the promises in full):
 *
 *     hf_options options = HF_OPTIONS_INIT;
 *     options.durability = HF_DURABILITY_ATOMIC;
 *     hf_open_or_create("list.hf", &options, &heap);
 *     hf_allocate_to(heap, hf_root(heap, 0), 64, NULL);  // block and root pointer: both survive a crash, or neither
 *
 * Thread safety: any number of threads may allocate, free, and call the functions on objects at once. During hf_commit,
 * hf_close, hf_discard, hf_snapshot and hf_collect all others neither call the heap nor store to its memory (see
 * <holdfast/manager.hpp>).
 *
 * A heap may be mapped elsewhere at the next open: keep pointers in it as hf_ptr, or typed (<holdfast/typed.h>). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* C programs may pass any number as an enumerator; a fixed underlying type makes that defined in C++. */
#ifdef __cplusplus
#define HF_OF_INT : int
extern "C" {
#else
#define HF_OF_INT
#endif

/* NOLINTBEGIN(readability-identifier-naming,modernize-use-using): C. */

/* --- errors --- */
/* What went wrong, as holdfast::errc; the values never change. */
typedef enum hf_code HF_OF_INT {
    HF_OK = 0,
    HF_INVALID_ARGUMENT = 1,         /* the call has no meaning */
    HF_NOT_A_HEAP = 2,               /* something else is at the path */
    HF_VERSION_UNSUPPORTED = 3,      /* a format unknown to this library */
    HF_CORRUPT = 4,                  /* broken checksums or invariants on media */
    HF_MISSING = 5,                  /* a file of the heap is not there */
    HF_ALREADY_EXISTS = 6,           /* create, and something is there */
    HF_NOT_FOUND = 7,                /* no such heap or object */
    HF_LOCKED = 8,                   /* another writer has the heap open; the message says who */
    HF_READ_ONLY = 9,                /* a change of a heap opened read-only, or on a read-only file system */
    HF_PERMISSION = 10,              /* refused by the file system */
    HF_NO_SPACE = 11,                /* the disk, the quota or the heap's maximum size is full */
    HF_ADDRESS_TAKEN = 12,           /* the address range is occupied */
    HF_IO = 13,                      /* another failure of a system call */
    HF_TYPE_MISMATCH = 14,           /* an object of another type or size */
    HF_NAME_EXISTS = 15,             /* an object has the name already */
    HF_PROMISE_UNAVAILABLE = 16,     /* the storage cannot keep the durability asked for */
    HF_WRONG_PROCESS = 17,           /* a child of fork used its parent's heap */
    HF_CONCURRENT_MODIFICATION = 18, /* another thread stored to the heap, or was in a call, during a commit */
    HF_POISONED = 19,                /* a sync failed: discard and open again */
    HF_LIMIT = 20,                   /* a limit of the system or of the format */
    HF_OUT_OF_MEMORY = 21,           /* no memory; commit: too much waits for a commit */
    HF_BAD_ADDRESS = 22,             /* not the start of an allocated block of this heap */
    HF_UNSUPPORTED = 23              /* the file system, the kernel or this version lacks it */
} hf_code;

/* The message of the calling thread's last failure: path, field, what was found, what was expected, what to do; the
 * code's name alone where there was no memory for it. At most 1,023 bytes; "" before the first failure. Valid until the
 * thread's next failure; a success leaves it. */
const char* hf_errormsg(void);
/* The code of the calling thread's last failure; HF_OK before the first. */
hf_code hf_errorcode(void);
/* The name of a code, "no_space" for HF_NO_SPACE; "unknown" for a number that is no code. Never NULL. */
const char* hf_code_name(hf_code code);
/* The version of the library: "0.1.0". */
const char* hf_version(void);

/* --- opening --- */

typedef struct hf_heap hf_heap;

/* What the heap promises after a crash, as holdfast::durability. */
enum { HF_DURABILITY_COMMIT = 1, HF_DURABILITY_COLLECT = 2, HF_DURABILITY_ATOMIC = 3 };

/* Durability `atomic` and `collect`: how far a store must travel to be durable. */
enum {
    HF_DOMAIN_DETECT = 0,     /* dax or eadr where the file system has it; else disk (atomic) or page-cache */
    HF_DOMAIN_EMULATED = 1,   /* the instructions of dax on any file system, for tests; covers no power loss */
    HF_DOMAIN_PAGE_CACHE = 2, /* covers crashes of the process alone */
    HF_DOMAIN_DISK = 3        /* atomic: a call returns when its record was synced */
};

/* Pages of 2 MiB for allocated memory, as holdfast::open_options::page_choice. */
enum {
    HF_HUGE_PAGES_ADVISE = 0, /* atomic, collect: advises the kernel to use them */
    HF_HUGE_PAGES_NONE = 1,   /* advises against them */
    HF_HUGE_PAGES_AT_ONCE = 2 /* what the heap grows by: atomic: collapses the pages; commit: advises the kernel */
};

/* A heap that crashed in durability `collect`, before its trace; valid during hf_options.before_trace. */
typedef struct hf_offline hf_offline;

/* How to create or open a heap; 0 means the default. holdfast::open_options explains each field in full. */
typedef struct hf_options {
    size_t size;                 /* set by HF_OPTIONS_INIT */
    uint32_t durability;         /* HF_DURABILITY_...; default: commit */
    uint32_t same_address;       /* create: not 0: always mapped at the same address */
    uint32_t verify;             /* open: not 0: compare all pages with their checksums */
    uint32_t no_commit_on_close; /* not 0: hf_close does not commit */
    uint64_t reservation;        /* bytes of virtual addresses, a power of two */
    uint64_t segment_size;       /* create: user bytes of a segment file, a power of two from 2 MiB to 64 GiB */
    uint64_t maximum_size;       /* limit of the user space in bytes */
    void* base_address;          /* map exactly here or fail with HF_ADDRESS_TAKEN */
    uint32_t domain;             /* atomic, collect: HF_DOMAIN_... */
    /* 0: an open in the domain page-cache, which covers no power loss, fails with HF_PROMISE_UNAVAILABLE. Else
     * page-cache is also the domain of atomic on ordinary file systems. */
    uint32_t accept_process_crash_only;
    /* Milliseconds that freed memory keeps its space; 0: 10,000; 1 to 49: none; negative: for ever. */
    int64_t decay_ms;
    /* Create: `nodes` directories for the segments, one for each node of the machine; "" or NULL: the heap's own. */
    const char* const* node_directories;
    uint32_t nodes;
    uint32_t huge_pages;           /* HF_HUGE_PAGES_... */
    uint32_t hardened;             /* not 0: exact frees, quarantine, random order, guard ranges */
    uint32_t separate_cache_lines; /* create: not 0: blocks take whole cache lines */
    uint32_t precise_recovery;     /* recovery in durability collect: not 0: as hf_collect_options.precise */
    uint32_t check_transactions;   /* not 0: tests the rules of transactions */
    /* Recovery in durability collect; may be NULL: called before the trace, to restore roots that the heap does not
     * hold (hf_offline_root, hf_offline_keep). A result other than HF_OK ends the open with it; the next one traces
     * again. */
    hf_code (*before_trace)(hf_offline* heap, void* context);
    void* before_trace_context;
    /* 0: HF_PROMISE_UNAVAILABLE, also for reading, for a heap that was open in the domain page-cache or emulated when
     * the machine stopped: it may have lost any store. */
    uint32_t accept_machine_restart;
    uint32_t shared; /* commit: not 0: processes change it by turns, within hf_transact_begin and hf_transact_end */
    uint64_t maximum_uncommitted; /* commit: bytes that may wait for a commit; more fails with HF_OUT_OF_MEMORY */
    uint32_t upkeep_thread;       /* atomic, collect: not 0: a thread gives freed memory back while the program rests */
} hf_options;
#define HF_OPTIONS_INIT \
    { sizeof(hf_options), 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, 0 }

/* Creates a heap, empty and durable when this returns. HF_ALREADY_EXISTS where anything is at the path; HF_NOT_FOUND
 * where the directory above is missing. `options` may be NULL. hf_close or hf_discard ends the handle `*heap`.
 * Meanwhile the directory may be renamed and the working directory may change. Where an open or a creation fails, media
 * are unchanged, except that a crashed heap may be recovered. */
hf_code hf_create(const char* path, const hf_options* options, hf_heap** heap);
/* For reading and writing. HF_NOT_FOUND where nothing is there, HF_LOCKED where another writer has it open, or, unless
 * in durability commit, a reader. */
hf_code hf_open(const char* path, const hf_options* options, hf_heap** heap);
/* Opens the heap, or creates it. Of several processes, one creates it; the others get HF_LOCKED until it has closed
 * it. */
hf_code hf_open_or_create(const char* path, const hf_options* options, hf_heap** heap);
/* Changes nothing of the heap on media. Beside a writer in durability commit it shows the last commit
 * (docs/readers.md); HF_LOCKED beside another writer. Stores are lost at the close; allocation fails with HF_READ_ONLY.
 */
hf_code hf_open_read_only(const char* path, const hf_options* options, hf_heap** heap);
/* Commits (unless options.no_commit_on_close) and closes. On failure, as while a transaction is open, the heap stays
 * open: close it again, or discard it. NULL is ignored. */
hf_code hf_close(hf_heap* heap);
/* Closes without a commit. The handle is invalid, whatever is returned. NULL is ignored. */
hf_code hf_discard(hf_heap* heap);

/* Durability commit: makes the present state durable, atomically. HF_NO_SPACE: nothing changed, and the heap stays
 * usable. HF_POISONED: a sync failed; discard the heap and open it again. Durability atomic and collect: syncs the
 * files. See manager::commit(). */
hf_code hf_commit(hf_heap* heap);
/* With hf_options.node_directories: lets a thread that runs on another node than it allocates from return the free
 * blocks that it kept and go on with the new node; `*followed`, unless NULL, is 1 then, else 0. Threads do so by
 * themselves at every 64th refill of their caches. Thread-safe; nothing durable changes. */
hf_code hf_follow_this_thread(hf_heap* heap, int* followed);
/* As holdfast::shrink_report. */
typedef struct hf_shrink_report {
    size_t size; /* set by HF_SHRINK_REPORT_INIT */
    uint64_t charged_before;
    uint64_t charged_after;
    uint64_t apparent_before;
    uint64_t apparent_after;
    uint64_t given_back;
    uint64_t shortened;
} hf_shrink_report;
#define HF_SHRINK_REPORT_INIT \
    { sizeof(hf_shrink_report), 0, 0, 0, 0, 0, 0 }
/* Gives unused space back to the file system until it charges no more than `target` bytes: empty slabs and free extents
 * become holes, segments at the end are removed; no block moves. Durability `commit`: as hf_commit; in the others other
 * threads may go on. `report` may be NULL. */
hf_code hf_shrink(hf_heap* heap, uint64_t target, hf_shrink_report* report);
/* As holdfast::refresh_report. */
typedef struct hf_refresh_report {
    size_t size;
    uint64_t version;
    uint64_t commits;
    uint64_t pages;
} hf_refresh_report;
#define HF_REFRESH_REPORT_INIT \
    { sizeof(hf_refresh_report), 0, 0, 0 }
/* A heap that is open read-only beside a writer goes to the newest durable commit, as a whole, while no other thread
 * uses it. Addresses stay; what lies there may have moved or gone. HF_INVALID_ARGUMENT while an index of it is open;
 * after any other failure the heap is closed, but for hf_close. `report` may be NULL. */
hf_code hf_refresh(hf_heap* heap, hf_refresh_report* report);
/* Waits until hf_refresh would find a newer commit: `*changed` is 1, or 0 when the time is over. Other threads may use
 * the heap. */
hf_code hf_wait_for_change(hf_heap* heap, uint64_t nanoseconds, int* changed);

/* Commits, then copies the heap to the new directory, with a uuid of its own; durable when it returns.
 * HF_CONCURRENT_MODIFICATION where, in durability `commit` and `atomic`, it notices other threads at work. */
hf_code hf_snapshot(hf_heap* heap, const char* destination);

/* Copy a heap; where a writer has it open, its last commit in durability commit, else HF_LOCKED; with its segments in
 * its own directory or options->node_directories, the only option used. `options` may be NULL. */
hf_code hf_copy(const char* source, const char* destination);
hf_code hf_copy_placed(const char* source, const char* destination, const hf_options* options);
/* Removes the heap's files and directories. HF_NOT_FOUND where nothing is there; an error where other files are in a
 * directory, which stay. */
hf_code hf_remove(const char* path);
/* 1 where hf_open_read_only would succeed, also for a crashed heap, and beside a writer in durability commit. */
int hf_consistent(const char* path);

/* --- memory --- */

/* `bytes` (at least 1) of memory, not zeroed, aligned to 16 bytes (to 8 where `bytes` is below 16). Durability
 * `atomic`: durable when this returns; a crash before the program has stored the address leaks the block (but not
 * hf_allocate_to's). */
void* hf_allocate(hf_heap* heap, size_t bytes);
/* As hf_allocate; `alignment` is a power of two up to 2 MiB. */
void* hf_allocate_aligned(hf_heap* heap, size_t bytes, size_t alignment);
/* Frees a block; NULL is ignored. HF_BAD_ADDRESS, and nothing changes, where no allocated block of this heap starts
 * there, or it is an object, which hf_object_destroy frees. Two threads that free one block at the same moment may both
 * get HF_OK, except in a hardened heap. */
hf_code hf_free(hf_heap* heap, void* address);
/* Memory that a device stores to by its physical pages, within one block: commits leave its pages in place and find
 * what the device has stored. Until hf_unpin with the same arguments the block cannot be freed. HF_BAD_ADDRESS where
 * the range is not within one allocated block, or not pinned; HF_READ_ONLY. See manager::pin(). */
hf_code hf_pin(hf_heap* heap, const void* begin, size_t bytes);
hf_code hf_unpin(hf_heap* heap, const void* begin, size_t bytes);
/* Usable bytes of the block at `address`. */
size_t hf_usable_size(const hf_heap* heap, const void* address);

/* malloc on a heap, with hf_free and hf_usable_size; as durable as hf_allocate. All blocks are aligned to 16 bytes; 0
 * bytes give a smallest block, which is to be freed. On failure NULL, with hf_errorcode() and errno: ENOMEM, or EINVAL
 * for a bad alignment.
 *
 * hf_calloc: all bytes are 0; HF_OUT_OF_MEMORY where count * bytes overflows. hf_realloc: keeps a block that is aligned
 * so where `bytes` fits it and half of it would not be idle, or where whole pages can be added or cut off; else moves
 * it, with its content as far as both reach and its type. On failure the old block is unchanged; NULL as `address`
 * means hf_malloc. hf_aligned_alloc: `alignment`: a power of two up to 2 MiB; `bytes` need not be a multiple of it. */
void* hf_malloc(hf_heap* heap, size_t bytes);
void* hf_calloc(hf_heap* heap, size_t count, size_t bytes);
void* hf_realloc(hf_heap* heap, void* address, size_t bytes);
void* hf_aligned_alloc(hf_heap* heap, size_t alignment, size_t bytes);

/* A pointer that stays valid when the heap is mapped elsewhere: the distance from itself to its target, and a stamp, as
 * ptr<T> in <holdfast/ptr.hpp>. Zeroed memory is NULL. It must be 8-byte aligned. Never copy it with memcpy or `=`:
 * hf_ptr_set keeps the stamp of the word written to. */
typedef struct hf_ptr {
    uint64_t word;
} hf_ptr;
/* The target's address in this process. `pointer` must not be NULL. */
void* hf_ptr_get(const hf_ptr* pointer);
void hf_ptr_set(hf_ptr* pointer, const void* target);

/* The roots: 512 pointers that a heap keeps without names, NULL at creation. */
#define HF_ROOT_COUNT 512
/* The target of root `index`; NULL also for an unset root. */
void* hf_root_get(const hf_heap* heap, size_t index);
/* A plain store: durable with the next hf_commit (durability `commit`), or after hf_persist of the root. HF_BAD_ADDRESS
 * where the target is neither NULL nor in the heap. */
hf_code hf_root_set(hf_heap* heap, size_t index, const void* target);
/* The root itself, as a destination; valid until the heap is closed. HF_READ_ONLY for a heap opened so. */
hf_ptr* hf_root(hf_heap* heap, size_t index);

/* --- collection --- */

/* As holdfast::collect_options. */
typedef struct hf_collect_options {
    size_t size;             /* set by HF_COLLECT_OPTIONS_INIT */
    uint32_t precise;        /* not 0: reads blocks of registered types by their layout or visitor */
    uint32_t refuse_unknown; /* precise: not 0: HF_TYPE_MISMATCH for a block of a type that is not registered; 0: reads
                              * it conservatively */
    uint32_t dry_run;        /* not 0: report, and free nothing */
    uint32_t null_transient; /* precise: not 0: pointers that lead out of the heap become NULL */
    uint32_t threads;        /* 0: one for each processor, at most 16 */
    uint32_t reserved;       /* 0 */
} hf_collect_options;
#define HF_COLLECT_OPTIONS_INIT \
    { sizeof(hf_collect_options), 0, 0, 0, 0, 0, 0 }
/* As holdfast::collect_report, as far as an older program knows it. */
typedef struct hf_collect_report {
    size_t size; /* set by HF_COLLECT_REPORT_INIT */
    uint64_t roots;
    uint64_t blocks_reached;
    uint64_t bytes_reached;
    uint64_t blocks_freed; /* in a dry run: that would have been freed */
    uint64_t bytes_freed;
    uint64_t refused_pointers;
    uint64_t free_block_pointers;
    uint64_t wild_pointers;
    uint64_t nulled_pointers;
    uint64_t unknown_type_blocks;
    uint64_t mark_ns;
    uint64_t sweep_ns;
    uint64_t slabs_freed;
    uint64_t extents_freed;
    uint64_t slabs_quarantined;
    uint64_t words_scanned;
    uint64_t prepare_ns;
} hf_collect_report;
#define HF_COLLECT_REPORT_INIT \
    { sizeof(hf_collect_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Frees every block that the roots and the objects do not reach. No other thread uses the heap meanwhile. Durability
 * `commit`: durable with the next hf_commit. `options` and `report` may be NULL. docs/tracing.md says what counts as a
 * pointer. */
hf_code hf_collect(hf_heap* heap, const hf_collect_options* options, hf_collect_report* report);
/* What the recovery of this open reached and freed; HF_NOT_FOUND where the heap had not crashed in durability
 * `collect`. blocks_freed is a lower bound: the crash may have lost which small blocks were allocated. */
hf_code hf_get_recovery_trace(const hf_heap* heap, hf_collect_report* report);

/* These serve hf_options.before_trace. hf_offline_address: where the heap's base is mapped; `bytes`, which may be NULL,
 * gets its size. hf_offline_root: to be read or changed with hf_ptr_get and hf_ptr_set. hf_offline_keep: the trace also
 * begins at the block that the address lies in; HF_BAD_ADDRESS outside the heap. Media keep nothing of that: store a
 * pointer to the block in the heap before the next crash, or keep it again. */
void* hf_offline_address(const hf_offline* heap, size_t* bytes);
hf_ptr* hf_offline_root(hf_offline* heap, size_t index);
hf_code hf_offline_keep(hf_offline* heap, const void* address);

/* An hf_ptr at `offset` or, where `raw` is not 0, an address. */
typedef struct hf_pointer_field {
    uint32_t offset; /* bytes, a multiple of 8 */
    uint32_t raw;
} hf_pointer_field;
/* Records in the heap where the pointers of a type (hf_traits.type) are. A block holds objects of `size` bytes, one
 * every `stride` bytes, or one object where `stride` is 0. `name` may be NULL. HF_INVALID_ARGUMENT outside the limits
 * of holdfast::type_layout. */
hf_code hf_register_type(hf_heap* heap, uint32_t type, uint64_t size, uint64_t stride, const hf_pointer_field* pointers,
                         size_t count, const char* name);
/* A function of this process that shows every pointer of a block to the sink, in place of the type's layout. Several
 * threads call it at once, for different blocks. It reads nothing else of the heap. NULL removes it. */
typedef struct hf_pointer_sink hf_pointer_sink;
typedef void (*hf_type_visitor)(void* block, size_t bytes, hf_pointer_sink* sink, void* context);
hf_code hf_register_visitor(hf_heap* heap, uint32_t type, hf_type_visitor visitor, void* context);
void hf_show_pointer(hf_pointer_sink* sink, hf_ptr* pointer);
void hf_show_address(hf_pointer_sink* sink, void** address);

/* Lets the filter decide on every free from now on, in the thread that frees: unless it returns 0, the block stays
 * allocated until hf_free_now. NULL ends that. No other thread uses the heap meanwhile. HF_UNSUPPORTED in durability
 * `atomic`. */
typedef int (*hf_free_filter)(void* block, void* context);
hf_code hf_set_free_filter(hf_heap* heap, hf_free_filter filter, void* context);
/* hf_free without the filter. */
hf_code hf_free_now(hf_heap* heap, void* address);

/* --- blocks with their destinations ---
 *
 * Durability `atomic`: a crash leaves each call, block and hf_ptr, done as a whole or not at all, and done if it has
 * returned.
 * Durability `commit`: the effect of a call is part of the next hf_commit().
 * Durability `collect`: no crash leaves an hf_ptr that points to memory that is free or another block's. What
 * hf_allocate_to and hf_publish store in it is durable after hf_persist().
 *
 * A destination is an hf_ptr in this heap: a root, or a word in an allocated block that was durably initialised (zeroed
 * memory is). It has one operation at a time; only these calls and hf_ptr_set write it. A program that moves a pointer
 * from `tmp` to `head` persists `head` before it empties `tmp`, and `tmp` before it frees through `head`
 * (docs/atomic-protocol.md).
 *
 * Errors: HF_NO_SPACE; HF_BAD_ADDRESS for a destination outside the heap, or one that points to no allocated block;
 * HF_INVALID_ARGUMENT for 0 bytes, NULL, or a type of 2^20 and more; HF_READ_ONLY; HF_WRONG_PROCESS in a child of fork.
 * Then nothing has changed. Thread-safe. */

/* What to allocate; a NULL hf_traits means the defaults. */
typedef struct hf_traits {
    size_t size;      /* set by HF_TRAITS_INIT */
    size_t alignment; /* bytes: a power of two up to 2 MiB; 0: 16, or 8 for less than 16 bytes */
    uint32_t zeroed;  /* not 0: all bytes are 0, durably, before anything points to the block */
    uint32_t type;    /* the kind of object: below 2^20, 0 for none; see holdfast::allocation_traits */
} hf_traits;
#define HF_TRAITS_INIT \
    { sizeof(hf_traits), 0, 0, 0 }

/* Allocates a block, lets `destination` point to it, and returns it; the block that it pointed to is not freed.
 * `traits` may be NULL. */
void* hf_allocate_to(hf_heap* heap, hf_ptr* destination, size_t bytes, const hf_traits* traits);
/* hf_allocate with traits. The zeros of `zeroed` are as durable as what the program stores itself. */
void* hf_allocate_with(hf_heap* heap, size_t bytes, const hf_traits* traits);
/* Frees the block that `destination` points to and sets it to NULL. `*freed` is 0 where it was NULL, else 1; `freed`
 * may be NULL. */
hf_code hf_free_from(hf_heap* heap, hf_ptr* destination, int* freed);
/* Replaces the block by one of `bytes` bytes with the same content as far as both reach, durably, and the same type
 * where traits->type is 0. The copy holds no destinations. A block of whole pages that is long enough, and not twice as
 * long, stays. A NULL destination: as hf_allocate_to. */
void* hf_realloc_to(hf_heap* heap, hf_ptr* destination, size_t bytes, const hf_traits* traits);

/* A block that is not allocated yet: fill it, hf_persist() it, hf_publish() it. Until then hf_usable_size and hf_free
 * refuse it, a crash and hf_close free it, and it holds no destinations. */
void* hf_reserve(hf_heap* heap, size_t bytes, const hf_traits* traits);
/* Allocates a reserved block, else HF_BAD_ADDRESS, and lets `destination` point to it. */
hf_code hf_publish(hf_heap* heap, hf_ptr* destination, void* reserved);
/* Gives back a reserved block, else HF_BAD_ADDRESS. */
hf_code hf_cancel(hf_heap* heap, void* reserved);

/* hf_allocate_to and hf_free_from for `count` destinations, with one fence for up to 32. Each element is atomic, the
 * batch is not: on failure the first are done and the others unchanged. hf_free_batch skips NULL destinations. */
hf_code hf_allocate_batch(hf_heap* heap, hf_ptr* const* destinations, size_t count, size_t bytes,
                          const hf_traits* traits);
hf_code hf_free_batch(hf_heap* heap, hf_ptr* const* destinations, size_t count);

/* The program's own data: hf_flush starts to write `bytes` at `begin` back, hf_drain waits until what this thread
 * flushed is durable, hf_persist does both. No-ops in the domain page-cache and in durability `commit`. */
hf_code hf_flush(const hf_heap* heap, const void* begin, size_t bytes);
hf_code hf_drain(const hf_heap* heap);
hf_code hf_persist(const hf_heap* heap, const void* begin, size_t bytes);

typedef struct hf_block_info {
    void* address;
    size_t bytes; /* usable */
    uint32_t type;
} hf_block_info;
/* `block` is valid during the call. Another result than 0 ends the iteration. */
typedef int (*hf_block_visitor)(const hf_block_info* block, void* context);
/* Visits the allocated blocks in order of address; the visitor may free its block. Blocks that others allocate or free
 * meanwhile may be missed or seen. */
hf_code hf_for_each_block(const hf_heap* heap, hf_block_visitor visitor, void* context);
/* `*type` is the type number of the block, 0 for none. HF_BAD_ADDRESS where no block starts there. */
hf_code hf_type_of(const hf_heap* heap, const void* address, uint32_t* type);

/* As holdfast::extent_kind. */
typedef enum hf_extent_kind {
    HF_EXTENT_FREE = 1,
    HF_EXTENT_BLOCK = 2,
    HF_EXTENT_SLAB = 3,
    HF_EXTENT_ROOTS = 4,
    HF_EXTENT_RESERVED = 5, /* a block of hf_reserve, or withdrawn from use: free after a crash */
} hf_extent_kind;
/* As holdfast::extent_info. */
typedef struct hf_extent_info {
    uint64_t offset;
    uint64_t bytes;
    hf_extent_kind kind;
    uint32_t block_size;
    uint32_t blocks;
    uint32_t live_blocks;
    uint64_t backed_bytes;
    int backed_exactly; /* 0: backed_bytes is a lower bound */
} hf_extent_info;
typedef int (*hf_extent_visitor)(const hf_extent_info* extent, void* context);
/* As hf_for_each_block(), for every extent. */
hf_code hf_for_each_extent(const hf_heap* heap, hf_extent_visitor visitor, void* context);

/* Durability `atomic`: writes back what completed calls have changed, so that a recovery has less to do. Never needed;
 * a no-op in other durabilities. */
hf_code hf_checkpoint(hf_heap* heap);

/* As holdfast::protocol_counters; 0 in other durabilities than `atomic`. Unknown fields of a newer program are left as
 * they are. */
typedef struct hf_counters {
    size_t size; /* set by HF_COUNTERS_INIT */
    uint64_t durable_records;
    uint64_t fences;
    uint64_t lines_flushed;
    uint64_t reflushes;
    uint64_t media_bytes;
    uint64_t checkpoints;
    uint64_t checkpoint_ns;
    uint64_t longest_checkpoint_ns;
    uint64_t waits;
    uint64_t lanes;
} hf_counters;
#define HF_COUNTERS_INIT \
    { sizeof(hf_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
hf_code hf_get_counters(const hf_heap* heap, hf_counters* counters);

/* As holdfast::recovery_report; all 0 where nothing was recovered. */
typedef struct hf_recovery {
    size_t size; /* set by HF_RECOVERY_INIT */
    uint64_t lanes;
    uint64_t pending;
    uint64_t replayed;
    uint64_t rolled_back;
    uint64_t time_ns;
} hf_recovery;
#define HF_RECOVERY_INIT \
    { sizeof(hf_recovery), 0, 0, 0, 0, 0 }
hf_code hf_get_recovery(const hf_heap* heap, hf_recovery* recovery);

/* --- objects --- */

/* Special names, recognised by their address: the one object of its type; an object without a name. */
extern const char hf_unique_instance[];
extern const char hf_anonymous_instance[];

/* Creates `count` >= 1 zeroed elements. A type is a name that the program chooses and the size of one element; a
 * look-up checks both. C++ programs give the mangled names of types. Elements are aligned to the largest power of two
 * that divides their size, at most 16. Durable when the call returns in durability `atomic` and `collect`, with the
 * next hf_commit in `commit`. HF_NAME_EXISTS where the name is taken. `address` may be NULL. */
hf_code hf_object_create(hf_heap* heap, const char* name, const char* type, size_t element_size, size_t count,
                         void** address);
/* HF_NOT_FOUND where there is none, HF_TYPE_MISMATCH where the name bears another type; HF_INVALID_ARGUMENT for
 * hf_anonymous_instance. `address` and `count` may be NULL. */
hf_code hf_object_find(const hf_heap* heap, const char* name, const char* type, size_t element_size, void** address,
                       size_t* count);
/* Finds or creates, in one step among threads. `*created` is 1 if it was created, else 0; `created` may be NULL. */
hf_code hf_object_find_or_create(hf_heap* heap, const char* name, const char* type, size_t element_size, size_t count,
                                 void** address, int* created);
/* Removes the object and frees its memory, as durably as hf_object_create. No destructor runs: destroy C++ objects in
 * C++. HF_NOT_FOUND where there is none; HF_LOCKED for an open index. */
hf_code hf_object_destroy(hf_heap* heap, const char* name, const char* type, size_t element_size);
/* hf_object_destroy of an object of any kind. HF_BAD_ADDRESS where there is none. */
hf_code hf_object_destroy_at(hf_heap* heap, void* address);

typedef enum hf_kind HF_OF_INT { HF_NAMED = 1, HF_UNIQUE = 2, HF_ANONYMOUS = 3 } hf_kind;

typedef struct hf_object_info {
    const char* name; /* the type's for a unique object, "" for an anonymous one */
    hf_kind kind;
    void* address;
    uint64_t offset; /* from the heap's base */
    size_t count;    /* elements */
    const char* type;
    size_t element_size;
    const char* description;
} hf_object_info;

/* `object` and its strings are valid during the call. Another result than 0 ends the iteration. */
typedef int (*hf_object_visitor)(const hf_object_info* object, void* context);
/* Visits the objects of the kind that exist at the call; the visitor may create and destroy objects. */
hf_code hf_object_iterate(const hf_heap* heap, hf_kind kind, hf_object_visitor visitor, void* context);
/* HF_BAD_ADDRESS where there is none. */
hf_code hf_object_at(const hf_heap* heap, const void* address, hf_object_visitor visitor, void* context);
/* HF_BAD_ADDRESS where there is none; HF_READ_ONLY. */
hf_code hf_object_describe(hf_heap* heap, const void* address, const char* description);

/* --- the heap --- */

/* Where the heap's base is mapped. */
void* hf_base(const hf_heap* heap);
/* HF_DURABILITY_... of the open; commit for a heap opened read-only. */
uint32_t hf_durability(const hf_heap* heap);
/* "disk", "page-cache", "dax", "eadr" or "emulated". */
const char* hf_domain(const hf_heap* heap);
/* 1 where the address lies in the heap's user space, else 0. */
int hf_contains(const hf_heap* heap, const void* address);

/* As holdfast::heap_statistics. Unknown fields of a newer program are left as they are. */
typedef struct hf_statistics {
    size_t size; /* set by HF_STATISTICS_INIT */
    uint64_t reserved_address_space;
    uint64_t user_bytes;
    uint64_t allocated_bytes;
    uint64_t allocated_blocks;
    uint64_t free_bytes;
    uint64_t largest_free_block;
    uint64_t apparent_bytes;
    uint64_t charged_bytes;
    uint64_t segments;
    uint64_t slabs;
    uint64_t extents;
    uint64_t named_objects;
    uint64_t unique_objects;
    uint64_t anonymous_objects;
    uint64_t commit_sequence;
    int64_t last_commit_ns; /* since 1970, UTC; 0 where there was none */
    int64_t created_ns;
    uint64_t recoveries;
    uint32_t recovered;
    uint32_t rolled_forward;
    uint64_t guard_ranges; /* of a hardened heap: 64 KiB each, neither allocated nor free */
    uint64_t log_commits;
    uint64_t log_bytes;
    uint64_t watched_bytes; /* durability `commit`: memory whose stores the kernel notes, so that a commit is faster */
    uint64_t private_bytes; /* durability `commit`: stored to since the last commit, and pinned */
} hf_statistics;
#define HF_STATISTICS_INIT \
    { sizeof(hf_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
hf_code hf_get_statistics(const hf_heap* heap, hf_statistics* statistics);

/* Checks every invariant; `pages` not 0: also every page that has a checksum. `*problems` is their number, 0 for a
 * sound heap; `report` (may be NULL) gets a line for each. HF_OK means that the check ran. */
typedef void (*hf_problem_visitor)(const char* problem, void* context);
hf_code hf_check(const hf_heap* heap, int pages, size_t* problems, hf_problem_visitor report, void* context);
/* Pages that the last hf_check with `pages`, or else the open with hf_options.verify, compared, and that have no
 * checksum (all, in a heap last open in durability `atomic` or `collect`). Either may be NULL. */
hf_code hf_last_comparison(const hf_heap* heap, uint64_t* compared, uint64_t* without_checksum);

/* As text: 36 characters and a 0. */
#define HF_UUID_SIZE 37
hf_code hf_uuid(const hf_heap* heap, char uuid[HF_UUID_SIZE]);

/* NOLINTEND(readability-identifier-naming,modernize-use-using) */

#ifdef __cplusplus
}
#endif
