/* The C face of Holdfast: a persistent heap in a directory, with opaque handles and error codes.
 *
 *     hf_heap *heap = NULL;
 *     if (hf_open_or_create("graph.hf", NULL, &heap) != HF_OK) { fprintf(stderr, "%s\n", hf_errormsg()); return 1; }
 *     int *counter = NULL;
 *     hf_object_find_or_create(heap, "counter", "int", sizeof *counter, 1, (void **)&counter, NULL);
 *     ++*counter;
 *     hf_close(heap);
 *
 * Conventions. A function returns HF_OK or the code of what went wrong, and then hf_errormsg() says it in a sentence.
 * Output arguments are written on success only; where the text says "may be NULL" they may be. No function aborts or
 * throws. Sizes are in bytes, times in nanoseconds. Strings are UTF-8 or any bytes but 0.
 *
 * Durability `commit`: a heap is after a crash exactly as the last hf_commit() (or hf_close(), which commits) left it.
 * Durability `atomic`: every call of the section "blocks with their destinations" that returned is there, as a whole:
 *
 *     hf_options options = HF_OPTIONS_INIT;
 *     options.durability = HF_DURABILITY_ATOMIC;
 *     options.accept_process_crash_only = 1;                        // where there is no dax
 *     hf_open_or_create("list.hf", &options, &heap);
 *     hf_allocate_to(heap, hf_root(heap, 0), 64, NULL);             // there, and the root points to it, or neither
 *
 * Durability `collect`: after a crash what the roots and the named objects reach is allocated, and the rest is free.
 *
 * Thread safety: as <holdfast/manager.hpp>: allocation and the functions on objects may be called by any number of
 * threads at once; hf_commit, hf_close, hf_discard and hf_snapshot by one thread while all others stand still.
 *
 * Memory of a heap may lie at another address next time: pointers within it are kept as hf_ptr. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* In C any number may be passed for an enumerator; this says so to C++. */
#ifdef __cplusplus
#define HF_OF_INT : int
extern "C" {
#else
#define HF_OF_INT
#endif

/* NOLINTBEGIN(readability-identifier-naming,modernize-use-using): C. */

/* --- errors --------------------------------------------------------------------------------------------------------
 */

/* What went wrong; the values are those of holdfast::errc and never change. */
typedef enum hf_code HF_OF_INT {
    HF_OK = 0,
    HF_INVALID_ARGUMENT = 1,         /* the call has no meaning */
    HF_NOT_A_HEAP = 2,               /* something is at the path, and it is no heap */
    HF_VERSION_UNSUPPORTED = 3,      /* a format that this library does not read */
    HF_CORRUPT = 4,                  /* media content that breaks its checksum or an invariant */
    HF_MISSING = 5,                  /* a file of the heap is not there */
    HF_ALREADY_EXISTS = 6,           /* create, and something is there */
    HF_NOT_FOUND = 7,                /* no such heap, no such object */
    HF_LOCKED = 8,                   /* another writer has the heap open; the message says who */
    HF_READ_ONLY = 9,                /* a change was asked of a heap opened read-only, or of a read-only file system */
    HF_PERMISSION = 10,              /* the file system refused access */
    HF_NO_SPACE = 11,                /* the disk or the quota is full, or the heap's maximum size reached */
    HF_ADDRESS_TAKEN = 12,           /* the address range is occupied */
    HF_IO = 13,                      /* a system call failed in another way */
    HF_TYPE_MISMATCH = 14,           /* the object has another type or size */
    HF_NAME_EXISTS = 15,             /* the name bears an object already */
    HF_PROMISE_UNAVAILABLE = 16,     /* the storage cannot keep the durability asked for */
    HF_WRONG_PROCESS = 17,           /* a child of fork used its parent's heap */
    HF_CONCURRENT_MODIFICATION = 18, /* memory changed during a commit */
    HF_POISONED = 19,                /* a sync failed: discard and open again */
    HF_LIMIT = 20,                   /* a limit of the system or of the format */
    HF_OUT_OF_MEMORY = 21,           /* the process has no memory left for the heap's bookkeeping */
    HF_BAD_ADDRESS = 22,             /* not the start of an allocated block, or not of this heap */
    HF_UNSUPPORTED = 23              /* the file system, the kernel or this version lacks it */
} hf_code;

/* The sentence of the calling thread's last failure: path, field, what was found, what was expected, what to do. ""
 * before the first. Valid until the thread's next failure; a success leaves it. */
const char* hf_errormsg(void);
/* The code of the calling thread's last failure, for functions that return a pointer. HF_OK before the first. */
hf_code hf_errorcode(void);
/* The name of the code: "no_space"; "unknown" for a number that is none. Never NULL. */
const char* hf_code_name(hf_code code);
/* Version of the library: "0.1.0". */
const char* hf_version(void);

/* --- opening -------------------------------------------------------------------------------------------------------
 */

typedef struct hf_heap hf_heap;

/* What the heap promises after a crash. The values are those of holdfast::durability. */
enum { HF_DURABILITY_COMMIT = 1, HF_DURABILITY_COLLECT = 2, HF_DURABILITY_ATOMIC = 3 };

/* Durability `atomic` and `collect`: how far a store must travel to be durable. */
enum {
    HF_DOMAIN_DETECT = 0,    /* as the file system says: dax, eadr or page-cache */
    HF_DOMAIN_EMULATED = 1,  /* as dax in every instruction, on any file system: for tests, no power loss */
    HF_DOMAIN_PAGE_CACHE = 2 /* crashes of the process alone */
};

/* Pages of 2 MiB for what is allocated. The values are those of holdfast::open_options::page_choice. */
enum {
    HF_HUGE_PAGES_ADVISE = 0, /* the kernel is told that they are welcome */
    HF_HUGE_PAGES_NONE = 1,   /* it is told that they are not */
    HF_HUGE_PAGES_AT_ONCE = 2 /* durability atomic: put together as the heap grows */
};

/* How to create or open a heap; 0 means the default. Initialise with HF_OPTIONS_INIT: the first field lets a program
 * work with later versions of the library. The fields are explained at holdfast::open_options. */
typedef struct hf_options {
    size_t size;                 /* sizeof(hf_options) */
    uint32_t durability;         /* HF_DURABILITY_...; default: commit */
    uint32_t same_address;       /* create: not 0: mapped at the same address for ever */
    uint32_t verify;             /* open: not 0: compare every page with its checksum first */
    uint32_t no_commit_on_close; /* not 0: hf_close leaves the last commit as it is */
    uint64_t reservation;        /* bytes of virtual addresses, a power of two */
    uint64_t segment_size;       /* create: user bytes of a segment file, a power of two from 2 MiB to 64 GiB */
    uint64_t maximum_size;       /* limit of the user space in bytes */
    void* base_address;          /* map exactly here or fail with HF_ADDRESS_TAKEN */
    uint32_t domain;             /* durability atomic, collect: HF_DOMAIN_... */
    /* Durability atomic or collect in the domain page-cache covers crashes of the process, no power loss. Not 0: that
     * is understood; else opening it fails with HF_PROMISE_UNAVAILABLE. */
    uint32_t accept_process_crash_only;
    /* How long freed memory may keep its space on disk, in milliseconds: 0: 10,000; below 50: not at all; negative: for
     * ever. Durability commit: it goes with the next hf_commit after that. */
    int64_t decay_ms;
    /* Create: `nodes` directories, one for each node of the machine, for the segments; "" is the heap's own. NULL: all
     * segments lie there. */
    const char* const* node_directories;
    uint32_t nodes;
    uint32_t huge_pages;           /* HF_HUGE_PAGES_... */
    uint32_t hardened;             /* not 0: exact frees, quarantine, random order, guard ranges */
    uint32_t separate_cache_lines; /* create: not 0: no two blocks share a cache line; blocks take whole lines */
    uint32_t precise_recovery;     /* after a crash in durability collect: not 0: as hf_collect_options.precise */
    uint32_t reserved;             /* 0 */
} hf_options;
#define HF_OPTIONS_INIT \
    { sizeof(hf_options), 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0 }

/* Create a heap: HF_ALREADY_EXISTS where anything is at the path, HF_NOT_FOUND where the directory above it is not
 * there. From then on the heap is that directory, wherever it is moved, and whatever the working directory is. When it
 * returns, the empty heap is durable. `options` may be NULL; `*heap` is the handle, to be given to hf_close or
 * hf_discard. On failure nothing on media has changed, except that a crashed heap may have been recovered. */
hf_code hf_create(const char* path, const hf_options* options, hf_heap** heap);
/* Open a heap for reading and writing: HF_NOT_FOUND where nothing is there. */
hf_code hf_open(const char* path, const hf_options* options, hf_heap** heap);
/* Open it, or create it where nothing is. Of processes that come at once one creates; the others open what it made when
 * it has closed it, and before that get HF_LOCKED. */
hf_code hf_open_or_create(const char* path, const hf_options* options, hf_heap** heap);
/* Stores go to private pages and vanish; allocation fails with HF_READ_ONLY. */
hf_code hf_open_read_only(const char* path, const hf_options* options, hf_heap** heap);
/* Commits (unless the options say otherwise) and closes. On success the handle is gone; on failure the heap stays open
 * and may be closed again or discarded. NULL is ignored. */
hf_code hf_close(hf_heap* heap);
/* Closes without a commit. The handle is gone, whatever is returned. NULL is ignored. */
hf_code hf_discard(hf_heap* heap);

/* Makes the present state durable, atomically. HF_NO_SPACE: nothing changed, the heap goes on. */
hf_code hf_commit(hf_heap* heap);
/* Of a heap with a directory a node (hf_open_options): looks which node the calling thread runs on now; where that is
 * another than the one that it allocates from, it goes on with the new one, and what it kept for itself goes back.
 * `followed`, which may be NULL: 1 where it did, else 0. Threads look by themselves after some thousand allocations.
 * Any thread, at any time; nothing durable changes. HF_INVALID_ARGUMENT for NULL. */
hf_code hf_follow_this_thread(hf_heap* heap, int* followed);
/* What hf_shrink did; bytes. As hf_counters (below): the first field is set by the caller, HF_SHRINK_REPORT_INIT. */
typedef struct hf_shrink_report {
    size_t size;             /* sizeof(hf_shrink_report) */
    uint64_t charged_before; /* by the file system, all files of the heap */
    uint64_t charged_after;
    uint64_t apparent_before; /* sum of the file sizes */
    uint64_t apparent_after;
    uint64_t given_back; /* free space that became holes */
    uint64_t shortened;  /* addresses by which the heap ends earlier */
} hf_shrink_report;
#define HF_SHRINK_REPORT_INIT \
    { sizeof(hf_shrink_report), 0, 0, 0, 0, 0, 0 }
/* Gives space that is not used back to the file system, until it charges no more than `target` bytes: slabs without a
 * block and free extents become holes, segments at the end are removed. Nothing moves. Durability `atomic`: other
 * threads may go on; `commit`: it commits, as hf_commit does. `report` may be NULL. */
hf_code hf_shrink(hf_heap* heap, uint64_t target, hf_shrink_report* report);
/* Commits, then copies the heap to the new directory; the copy gets a uuid of its own. Durable when it returns. */
hf_code hf_snapshot(hf_heap* heap, const char* destination);

/* Heaps that are not open. hf_copy: HF_LOCKED where a writer has the source open. The segments of a copy lie in its own
 * directory, or, as options->node_directories says, in others; no other option counts, and `options` may be NULL. */
hf_code hf_copy(const char* source, const char* destination);
hf_code hf_copy_placed(const char* source, const char* destination, const hf_options* options);
/* Removes the heap's directory, its own files only. HF_NOT_FOUND where nothing is there. */
hf_code hf_remove(const char* path);
/* 1 where hf_open would succeed (a crashed heap counts: it recovers), else 0; changes nothing. */
int hf_consistent(const char* path);

/* --- memory --------------------------------------------------------------------------------------------------------
 */

/* `bytes` of memory, 16-byte aligned from 16 bytes on (8 below), not zeroed. NULL on failure, with hf_errorcode(). */
void* hf_allocate(hf_heap* heap, size_t bytes);
/* alignment: a power of two up to 2 MiB. */
void* hf_allocate_aligned(hf_heap* heap, size_t bytes, size_t alignment);
/* Frees; NULL is ignored. HF_BAD_ADDRESS, and nothing changes, where the address is not an allocated block of this
 * heap, or is an object: hf_object_destroy frees that. */
hf_code hf_free(hf_heap* heap, void* address);
/* Usable bytes of the block at `address`; 0 on failure, with hf_errorcode(). */
size_t hf_usable_size(const hf_heap* heap, const void* address);

/* The family of malloc on a heap, for programs that are built on it; in each durability what the functions above are.
 * All blocks are aligned to 16 bytes. NULL on failure, with hf_errorcode(), and errno ENOMEM (EINVAL for an alignment
 * that is none). hf_free and hf_usable_size are the other two.
 *
 * hf_malloc: 0 bytes are a block of its own, as all others to be freed. hf_calloc: all bytes are 0; HF_NO_SPACE where
 * count * bytes is no number. hf_realloc: the block grows or shrinks in place where it can, or moves, with its content
 * as far as both reach and its type; after NULL the old block is as it was; of NULL it is hf_malloc; to 0 bytes it is a
 * smallest block. What points to the block is the program's to mend. hf_aligned_alloc: a power of two up to 2 MiB;
 * `bytes` need be no multiple of it. */
void* hf_malloc(hf_heap* heap, size_t bytes);
void* hf_calloc(hf_heap* heap, size_t count, size_t bytes);
void* hf_realloc(hf_heap* heap, void* address, size_t bytes);
void* hf_aligned_alloc(hf_heap* heap, size_t alignment, size_t bytes);

/* A pointer that survives being mapped elsewhere: the distance from itself, and a stamp (see <holdfast/ptr.hpp>, whose
 * ptr<T> has the same layout). Zeroed memory is NULL. It must be 8-byte aligned, and must not be copied with memcpy or
 * `=`: read with hf_ptr_get and write with hf_ptr_set, which keeps the stamp of the word written to. */
typedef struct hf_ptr {
    uint64_t word;
} hf_ptr;
/* The address in this process. `pointer` is not NULL. */
void* hf_ptr_get(const hf_ptr* pointer);
void hf_ptr_set(hf_ptr* pointer, const void* target);

/* The roots: 512 pointers that a heap keeps without names, NULL at creation. */
#define HF_ROOT_COUNT 512
/* NULL for an unset slot, and on failure, with hf_errorcode(). */
void* hf_root_get(const hf_heap* heap, size_t index);
/* HF_BAD_ADDRESS where the target is neither NULL nor in the heap. Durable with the next commit. */
hf_code hf_root_set(hf_heap* heap, size_t index, const void* target);
/* The root itself, as a destination (below); valid until the heap is closed. NULL on failure, with hf_errorcode():
 * HF_READ_ONLY for a heap opened so, whose roots hf_root_get reads. */
hf_ptr* hf_root(hf_heap* heap, size_t index);

/* --- collection ----------------------------------------------------------------------------------------------------
 */

/* What hf_collect may do; initialise with HF_COLLECT_OPTIONS_INIT. As holdfast::collect_options. */
typedef struct hf_collect_options {
    size_t size;             /* sizeof(hf_collect_options) */
    uint32_t precise;        /* not 0: only what registered types call a pointer is one */
    uint32_t refuse_unknown; /* precise: not 0: HF_TYPE_MISMATCH where a type is not registered; else it is read
                                conservatively */
    uint32_t dry_run;        /* not 0: report, and free nothing */
    uint32_t null_transient; /* precise: not 0: pointers that lead out of the heap become NULL */
    uint32_t threads;        /* 0: one for each processor */
    uint32_t reserved;       /* 0 */
} hf_collect_options;
#define HF_COLLECT_OPTIONS_INIT \
    { sizeof(hf_collect_options), 0, 0, 0, 0, 0, 0 }
/* What it found; HF_COLLECT_REPORT_INIT. As holdfast::collect_report. */
typedef struct hf_collect_report {
    size_t size; /* sizeof(hf_collect_report) */
    uint64_t roots;
    uint64_t blocks_reached;
    uint64_t bytes_reached;
    uint64_t blocks_freed; /* of a dry run: that would have been */
    uint64_t bytes_freed;
    uint64_t refused_pointers; /* words that lead into the heap, and to no block */
    uint64_t free_block_pointers;
    uint64_t wild_pointers;
    uint64_t nulled_pointers;
    uint64_t unknown_type_blocks;
    uint64_t mark_ns;
    uint64_t sweep_ns;
} hf_collect_report;
#define HF_COLLECT_REPORT_INIT \
    { sizeof(hf_collect_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Frees every block that the roots and the objects do not lead to. No other thread uses the heap meanwhile. `options`
 * and `report` may be NULL. */
hf_code hf_collect(hf_heap* heap, const hf_collect_options* options, hf_collect_report* report);
/* What the recovery of this open has reached, and freed (of small blocks nobody knows which were allocated: those of
 * whole pages count alone): HF_NOT_FOUND where the heap had not crashed in durability collect. */
hf_code hf_get_recovery_trace(const hf_heap* heap, hf_collect_report* report);

/* A pointer of an object: an hf_ptr at this offset, or (raw) an address. */
typedef struct hf_pointer_field {
    uint32_t offset; /* bytes, a multiple of 8 */
    uint32_t raw;
} hf_pointer_field;
/* Says where the pointers of a type (hf_traits.type) are; the heap keeps it. Objects of `size` bytes, one every
 * `stride` bytes of a block; stride 0: one. `name` may be NULL. HF_INVALID_ARGUMENT: as holdfast::type_layout. */
hf_code hf_register_type(hf_heap* heap, uint32_t type, uint64_t size, uint64_t stride, const hf_pointer_field* pointers,
                         size_t count, const char* name);
/* The same by a function of this process, which shows the sink every pointer of a block. Several threads call it at
 * once, for different blocks; it reads the block, and nothing else of the heap. NULL takes it away. */
typedef struct hf_pointer_sink hf_pointer_sink;
typedef void (*hf_type_visitor)(void* block, size_t bytes, hf_pointer_sink* sink, void* context);
hf_code hf_register_visitor(hf_heap* heap, uint32_t type, hf_type_visitor visitor, void* context);
void hf_show_pointer(hf_pointer_sink* sink, hf_ptr* pointer);
void hf_show_address(hf_pointer_sink* sink, void** address);

/* From now on the filter sees every free; not 0: it keeps the block, and frees it with hf_free_now. NULL: none. No
 * other thread uses the heap meanwhile. HF_UNSUPPORTED in durability atomic. */
typedef int (*hf_free_filter)(void* block, void* context);
hf_code hf_set_free_filter(hf_heap* heap, hf_free_filter filter, void* context);
/* hf_free past the filter. */
hf_code hf_free_now(hf_heap* heap, void* address);

/* --- blocks with their destinations --------------------------------------------------------------------------------
 *
 * In durability `atomic` each of these calls is there after a crash, or not, as a whole: the block and the hf_ptr that
 * points to it. It is durable when the call returns. In durability `commit` they do the same, and it is there with the
 * next hf_commit(). In durability `collect` no hf_ptr leads to memory that is free or another's, whenever the process
 * dies; what hf_allocate_to and hf_publish store in it is the program's to hf_persist().
 *
 * A destination is an hf_ptr in this heap: a root, or in an allocated block, durably NULL or pointing to a block before
 * its first use (a zeroed block is), with one operation at a time. It is written by these calls and by hf_ptr_set only.
 * The program persists a word that it emptied (hf_ptr_set(&tmp, NULL); hf_persist(heap, &tmp, sizeof tmp)) before it
 * frees through another one.
 *
 * Errors: HF_NO_SPACE; HF_BAD_ADDRESS for a destination outside the heap, or one that points to no allocated block;
 * HF_INVALID_ARGUMENT for 0 bytes, NULL, or a type of 2^20 and more; HF_READ_ONLY; HF_WRONG_PROCESS in a child of fork.
 * Then nothing is changed. Thread safety: any number of threads at once. */

/* What to allocate, besides its size. NULL wherever one is asked for: the defaults. */
typedef struct hf_traits {
    size_t size;      /* sizeof(hf_traits), by HF_TRAITS_INIT */
    size_t alignment; /* a power of two up to 2 MiB; 0: 16, below 16 bytes 8 */
    uint32_t zeroed;  /* not 0: all bytes are 0, durably, before anything points to the block */
    uint32_t type;    /* what the program calls the block: below 2^20, 0 for none; see holdfast::allocation_traits */
} hf_traits;
#define HF_TRAITS_INIT \
    { sizeof(hf_traits), 0, 0, 0 }

/* Allocates `bytes`, and `destination` points to the block, which is returned; NULL on failure, with hf_errorcode().
 * What the destination pointed to before is not freed. `traits` may be NULL. */
void* hf_allocate_to(hf_heap* heap, hf_ptr* destination, size_t bytes, const hf_traits* traits);
/* hf_allocate, or hf_malloc, with traits: a type say, for precise tracing. `zeroed` is as durable here as what the
 * program stores itself. NULL on failure. */
void* hf_allocate_with(hf_heap* heap, size_t bytes, const hf_traits* traits);
/* Frees what `destination` points to, and it is NULL. `freed` (may be NULL) is 1, or 0 where it was NULL before. */
hf_code hf_free_from(hf_heap* heap, hf_ptr* destination, int* freed);
/* A block of `bytes` with the content of the old one as far as both reach, durably, in its place; the old one is free.
 * It has the old one's type where traits->type is 0. It holds no destinations: these do not survive being copied. Of a
 * destination that is NULL: as hf_allocate_to. NULL on failure. */
void* hf_realloc_to(hf_heap* heap, hf_ptr* destination, size_t bytes, const hf_traits* traits);

/* A block that is not allocated yet: fill it, hf_persist() it, hf_publish() it. After a crash, and after hf_close, it
 * is free. It holds no destinations before it is published, and hf_usable_size and hf_free refuse it. NULL on
 * failure. */
void* hf_reserve(hf_heap* heap, size_t bytes, const hf_traits* traits);
/* Allocates the reserved block, and `destination` points to it. HF_BAD_ADDRESS where it is not one that hf_reserve
 * returned. */
hf_code hf_publish(hf_heap* heap, hf_ptr* destination, void* reserved);
/* Gives back what hf_reserve returned. HF_BAD_ADDRESS for any other address, one that was published among them. */
hf_code hf_cancel(hf_heap* heap, void* reserved);

/* hf_allocate_to and hf_free_from for `count` destinations, each atomic alone, with a fence for 32. On failure the
 * first ones are done and the rest is not. hf_free_batch passes over those that are NULL. */
hf_code hf_allocate_batch(hf_heap* heap, hf_ptr* const* destinations, size_t count, size_t bytes,
                          const hf_traits* traits);
hf_code hf_free_batch(hf_heap* heap, hf_ptr* const* destinations, size_t count);

/* The program's own data, durability `atomic` and `collect`: starts to write `bytes` at `begin` back; waits for what
 * this thread started; both. They do nothing where it would not help (page-cache, durability `commit`). */
hf_code hf_flush(const hf_heap* heap, const void* begin, size_t bytes);
hf_code hf_drain(const hf_heap* heap);
hf_code hf_persist(const hf_heap* heap, const void* begin, size_t bytes);

/* An allocated block; later versions may append fields. */
typedef struct hf_block_info {
    void* address;
    size_t bytes; /* usable */
    uint32_t type;
} hf_block_info;
/* Called with each block; `block` is valid during the call. Another value than 0 ends the iteration. */
typedef int (*hf_block_visitor)(const hf_block_info* block, void* context);
/* Visits the allocated blocks in order of address; the visitor may free the block it is given. Blocks that others
 * allocate or free meanwhile may be missed or seen. */
hf_code hf_for_each_block(const hf_heap* heap, hf_block_visitor visitor, void* context);
/* `*type` is the type number that the block at `address` was allocated with, 0 for none. HF_BAD_ADDRESS where no block
 * starts there. */
hf_code hf_type_of(const hf_heap* heap, const void* address, uint32_t* type);

/* How the space is divided: runs of pages that together are the user space; later versions may append fields. */
typedef enum hf_extent_kind {
    HF_EXTENT_FREE = 1,
    HF_EXTENT_BLOCK = 2,    /* one block of whole pages: big, or huge (above 16 MiB) */
    HF_EXTENT_SLAB = 3,     /* 64 KiB of small blocks of one size */
    HF_EXTENT_ROOTS = 4,    /* the first 64 KiB */
    HF_EXTENT_RESERVED = 5, /* reserved, or withdrawn from use: free after a crash */
} hf_extent_kind;
typedef struct hf_extent_info {
    uint64_t offset; /* from the heap's base */
    uint64_t bytes;
    hf_extent_kind kind;
    uint32_t block_size;   /* of a slab: bytes of each block; 0: it is damaged */
    uint32_t blocks;       /* of a slab: that fit */
    uint32_t live_blocks;  /* of a slab: that are allocated */
    uint64_t backed_bytes; /* that the file system has space for; the rest are holes */
    int backed_exactly;    /* 0: at least so many, the file system (tmpfs) does not tell */
} hf_extent_info;
typedef int (*hf_extent_visitor)(const hf_extent_info* extent, void* context);
/* As hf_for_each_block(), for every extent, allocated or free. */
hf_code hf_for_each_extent(const hf_heap* heap, hf_extent_visitor visitor, void* context);

/* Durability `atomic`: writes back what all calls so far have changed, so that a recovery has less to do. No call needs
 * it. */
hf_code hf_checkpoint(hf_heap* heap);

/* What durability `atomic` has cost since the heap was opened; all 0 in others. The first field is set by the caller
 * (HF_COUNTERS_INIT); fields that this version of the library does not know are left as they are. */
typedef struct hf_counters {
    size_t size; /* sizeof(hf_counters) */
    uint64_t durable_records;
    uint64_t fences;
    uint64_t lines_flushed; /* of 64 bytes */
    uint64_t reflushes;     /* lines flushed again after fewer than 4 others */
    uint64_t media_bytes;   /* written: records, lines, times of checkpoints */
    uint64_t checkpoints;
    uint64_t checkpoint_ns; /* of all of them */
    uint64_t longest_checkpoint_ns;
    uint64_t waits; /* times that a call waited for a full ring */
    uint64_t lanes;
} hf_counters;
#define HF_COUNTERS_INIT \
    { sizeof(hf_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
hf_code hf_get_counters(const hf_heap* heap, hf_counters* counters);

/* What the recovery of this open did with the records of durability `atomic`; all 0 where there was none. As
 * hf_counters. */
typedef struct hf_recovery {
    size_t size;          /* sizeof(hf_recovery) */
    uint64_t lanes;       /* read */
    uint64_t pending;     /* records newer than the last checkpoint */
    uint64_t replayed;    /* words of media that had to be rewritten */
    uint64_t rolled_back; /* records that the crash cut off: their calls had not returned */
    uint64_t time_ns;
} hf_recovery;
#define HF_RECOVERY_INIT \
    { sizeof(hf_recovery), 0, 0, 0, 0, 0 }
hf_code hf_get_recovery(const hf_heap* heap, hf_recovery* recovery);

/* --- objects -------------------------------------------------------------------------------------------------------
 */

/* Names with a meaning of their own, by address: the one object of its type; an object without a name. */
extern const char hf_unique_instance[];
extern const char hf_anonymous_instance[];

/* The type is a name that the program chooses and the size of one element; both are checked whenever the object is
 * looked up. (Objects of the C++ face have the mangled names of their types.) Elements are aligned to the largest power
 * of two that divides their size, at most 16.
 *
 * Creates `count` >= 1 zeroed elements. HF_NAME_EXISTS where the name is taken. `address` may be NULL. */
hf_code hf_object_create(hf_heap* heap, const char* name, const char* type, size_t element_size, size_t count,
                         void** address);
/* HF_NOT_FOUND, HF_TYPE_MISMATCH. `address` and `count` may be NULL. Anonymous objects cannot be found. */
hf_code hf_object_find(const hf_heap* heap, const char* name, const char* type, size_t element_size, void** address,
                       size_t* count);
/* Finds the object or creates it, in one step among threads; `created` (may be NULL) is 1 where it was not there, else
 * 0. */
hf_code hf_object_find_or_create(hf_heap* heap, const char* name, const char* type, size_t element_size, size_t count,
                                 void** address, int* created);
/* Removes the object and frees its memory; no destructor runs, so leave objects of the C++ face to it. HF_NOT_FOUND. */
hf_code hf_object_destroy(hf_heap* heap, const char* name, const char* type, size_t element_size);
/* The same for an object of any kind, by its address. HF_BAD_ADDRESS where there is none. */
hf_code hf_object_destroy_at(hf_heap* heap, void* address);

typedef enum hf_kind HF_OF_INT { HF_NAMED = 1, HF_UNIQUE = 2, HF_ANONYMOUS = 3 } hf_kind;

/* One object; later versions may append fields. */
typedef struct hf_object_info {
    const char* name; /* the type's name for unique, "" for anonymous */
    hf_kind kind;
    void* address;
    uint64_t offset; /* from the heap's base */
    size_t count;    /* elements */
    const char* type;
    size_t element_size;
    const char* description;
} hf_object_info;

/* Called with each object; what `object` points to is valid during the call. Another value than 0 ends the iteration.
 */
typedef int (*hf_object_visitor)(const hf_object_info* object, void* context);
/* Visits the objects of the kind that exist when it is called; the visitor may create and destroy objects. */
hf_code hf_object_iterate(const hf_heap* heap, hf_kind kind, hf_object_visitor visitor, void* context);
/* Visits the object at the address. HF_BAD_ADDRESS where there is none. */
hf_code hf_object_at(const hf_heap* heap, const void* address, hf_object_visitor visitor, void* context);
/* Sets the description of the object at the address. HF_READ_ONLY for a heap opened so. */
hf_code hf_object_describe(hf_heap* heap, const void* address, const char* description);

/* --- the heap ------------------------------------------------------------------------------------------------------
 */

/* Where the heap's base is mapped; NULL for a NULL heap. */
void* hf_base(const hf_heap* heap);
/* HF_DURABILITY_... that the heap was opened in (a heap opened read-only: commit); 0 for a NULL heap. */
uint32_t hf_durability(const hf_heap* heap);
/* "page-cache", "dax", "eadr" or "emulated"; NULL on failure. */
const char* hf_domain(const hf_heap* heap);
/* 1 where the address lies in the heap's user space, else 0. */
int hf_contains(const hf_heap* heap, const void* address);

/* Numbers about an open heap, explained at holdfast::heap_statistics. The first field is set by the caller
 * (HF_STATISTICS_INIT); fields that this version of the library does not know are left as they are. */
typedef struct hf_statistics {
    size_t size; /* sizeof(hf_statistics) */
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
    uint64_t guard_ranges; /* of a hardened heap: 64 KiB each, neither allocated nor to be had */
} hf_statistics;
#define HF_STATISTICS_INIT \
    { sizeof(hf_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
hf_code hf_get_statistics(const hf_heap* heap, hf_statistics* statistics);

/* Checks every invariant; `pages` not 0: and every committed page against its checksum. `problems` gets the number of
 * those found, 0 for a sound heap; `report` (may be NULL) is called with a line for each. HF_OK says that the check
 * ran. */
typedef void (*hf_problem_visitor)(const char* problem, void* context);
hf_code hf_check(const hf_heap* heap, int pages, size_t* problems, hf_problem_visitor report, void* context);
/* Pages that hf_check with `pages`, or else the open with hf_options.verify, has compared, and those that have no
 * checksum: all, where the heap was last open in durability atomic or collect. Either pointer may be NULL. */
hf_code hf_last_comparison(const hf_heap* heap, uint64_t* compared, uint64_t* without_sum);

/* 36 characters and a 0. */
#define HF_UUID_SIZE 37
hf_code hf_uuid(const hf_heap* heap, char uuid[HF_UUID_SIZE]);

/* NOLINTEND(readability-identifier-naming,modernize-use-using) */

#ifdef __cplusplus
}
#endif
