/* Indexes of the C interface: maps in a heap for many threads, in the order of their keys or by hashes.
 *
 *     hf_index *orders = NULL;
 *     hf_index_open(heap, "orders", &orders);       // finds or makes it
 *     hf_index_insert(orders, 17, 4711);
 *     uint64_t value = 0;
 *     if (hf_index_find(orders, 17, &value) == HF_OK) { ... }
 *     hf_index_close(orders);
 *
 * hf_index has keys and values of 8 bytes, hf_text_index of bytes of any length up to 2^30, compared as by memcmp and
 * then by length. They are ordered_index<std::uint64_t, std::uint64_t> and ordered_index<std::string_view,
 * std::string_view>: <holdfast/ordered_index.hpp> says what a crash leaves, what a call costs, and the errors.
 * hf_hash_index and hf_text_hash_index have no order and shorter look-ups (<holdfast/hash_index.hpp>). C and C++ open
 * each other's. In durability `atomic` a change survives once its call has returned HF_OK.
 *
 * Thread safety: any number of threads may call everything but _close, _clear and _check, which need the index alone.
 * While an index is open, hf_close fails with HF_INVALID_ARGUMENT. */
#pragma once

#include <holdfast/holdfast.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming,modernize-use-using): C. */

typedef struct hf_index hf_index;
typedef struct hf_text_index hf_text_index;

/* Opens or makes the index with that name. HF_LOCKED where this process has it open; HF_TYPE_MISMATCH where the name
 * bears something else; HF_CORRUPT; HF_NOT_FOUND where there is none in a heap that is open read-only. */
hf_code hf_index_open(hf_heap* heap, const char* name, hf_index** index);
/* NULL is ignored. */
void hf_index_close(hf_index* index);
/* Frees an index that is not open, with its contents. HF_NOT_FOUND where there is none. */
hf_code hf_index_destroy(hf_heap* heap, const char* name);

/* _insert: HF_ALREADY_EXISTS where the key is there. _update, _remove: HF_NOT_FOUND where it is not. _put does either
 * of the first two. After any other code than HF_OK nothing has changed. */
hf_code hf_index_insert(hf_index* index, uint64_t key, uint64_t value);
hf_code hf_index_update(hf_index* index, uint64_t key, uint64_t value);
hf_code hf_index_put(hf_index* index, uint64_t key, uint64_t value);
hf_code hf_index_remove(hf_index* index, uint64_t key);
/* HF_NOT_FOUND where the key is not there. `value` may be NULL. */
hf_code hf_index_find(const hf_index* index, uint64_t key, uint64_t* value);

/* Is given one entry; a result that is not 0 ends the scan. It may call the index. */
typedef int (*hf_index_visitor)(uint64_t key, uint64_t value, void* context);
/* In ascending order from the smallest key that is not smaller than `from`; backward: in descending order from the
 * largest key that is not larger. */
hf_code hf_index_scan(const hf_index* index, uint64_t from, hf_index_visitor visitor, void* context);
hf_code hf_index_scan_backward(const hf_index* index, uint64_t from, hf_index_visitor visitor, void* context);
/* Looks at every leaf. */
hf_code hf_index_size(const hf_index* index, uint64_t* size);
hf_code hf_index_clear(hf_index* index);
/* HF_CORRUPT where an invariant is broken; hf_errormsg() says which. */
hf_code hf_index_check(hf_index* index);

/* Bytes of a key or a value; `data` may be NULL where there are none. */
typedef struct hf_bytes {
    const void* data;
    size_t size;
} hf_bytes;

hf_code hf_text_index_open(hf_heap* heap, const char* name, hf_text_index** index);
void hf_text_index_close(hf_text_index* index);
hf_code hf_text_index_destroy(hf_heap* heap, const char* name);
hf_code hf_text_index_insert(hf_text_index* index, hf_bytes key, hf_bytes value);
hf_code hf_text_index_update(hf_text_index* index, hf_bytes key, hf_bytes value);
hf_code hf_text_index_put(hf_text_index* index, hf_bytes key, hf_bytes value);
hf_code hf_text_index_remove(hf_text_index* index, hf_bytes key);
/* Copies at most `room` bytes of the value to `buffer`. `size`, which may be NULL, becomes the size of the whole. */
hf_code hf_text_index_find(const hf_text_index* index, hf_bytes key, void* buffer, size_t room, size_t* size);
/* The bytes are valid until the visitor returns. */
typedef int (*hf_text_index_visitor)(hf_bytes key, hf_bytes value, void* context);
hf_code hf_text_index_scan(const hf_text_index* index, hf_bytes from, hf_text_index_visitor visitor, void* context);
hf_code hf_text_index_scan_backward(const hf_text_index* index, hf_bytes from, hf_text_index_visitor visitor,
                                    void* context);
hf_code hf_text_index_size(const hf_text_index* index, uint64_t* size);
hf_code hf_text_index_clear(hf_text_index* index);
hf_code hf_text_index_check(hf_text_index* index);

/* HF_LIMIT where an insertion finds more keys of one hash than a bucket holds. */
typedef struct hf_hash_index hf_hash_index;
typedef struct hf_text_hash_index hf_text_hash_index;

hf_code hf_hash_index_open(hf_heap* heap, const char* name, hf_hash_index** index);
void hf_hash_index_close(hf_hash_index* index);
hf_code hf_hash_index_destroy(hf_heap* heap, const char* name);
hf_code hf_hash_index_insert(hf_hash_index* index, uint64_t key, uint64_t value);
hf_code hf_hash_index_update(hf_hash_index* index, uint64_t key, uint64_t value);
hf_code hf_hash_index_put(hf_hash_index* index, uint64_t key, uint64_t value);
hf_code hf_hash_index_remove(hf_hash_index* index, uint64_t key);
hf_code hf_hash_index_find(const hf_hash_index* index, uint64_t key, uint64_t* value);
/* All entries, in any order. */
hf_code hf_hash_index_each(const hf_hash_index* index, hf_index_visitor visitor, void* context);
hf_code hf_hash_index_size(const hf_hash_index* index, uint64_t* size);
hf_code hf_hash_index_clear(hf_hash_index* index);
hf_code hf_hash_index_check(hf_hash_index* index);

hf_code hf_text_hash_index_open(hf_heap* heap, const char* name, hf_text_hash_index** index);
void hf_text_hash_index_close(hf_text_hash_index* index);
hf_code hf_text_hash_index_destroy(hf_heap* heap, const char* name);
hf_code hf_text_hash_index_insert(hf_text_hash_index* index, hf_bytes key, hf_bytes value);
hf_code hf_text_hash_index_update(hf_text_hash_index* index, hf_bytes key, hf_bytes value);
hf_code hf_text_hash_index_put(hf_text_hash_index* index, hf_bytes key, hf_bytes value);
hf_code hf_text_hash_index_remove(hf_text_hash_index* index, hf_bytes key);
hf_code hf_text_hash_index_find(const hf_text_hash_index* index, hf_bytes key, void* buffer, size_t room, size_t* size);
hf_code hf_text_hash_index_each(const hf_text_hash_index* index, hf_text_index_visitor visitor, void* context);
hf_code hf_text_hash_index_size(const hf_text_hash_index* index, uint64_t* size);
hf_code hf_text_hash_index_clear(hf_text_hash_index* index);
hf_code hf_text_hash_index_check(hf_text_hash_index* index);

/* NOLINTEND(readability-identifier-naming,modernize-use-using) */

#ifdef __cplusplus
}
#endif
