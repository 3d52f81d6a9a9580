/* Pointers between heaps, and a check of pointers within one. See <holdfast/global_ptr.hpp> and docs/pointers.md. */
#pragma once

#include <holdfast/holdfast.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A pointer that may lead into another heap than the one that it lies in: the first 8 bytes of the uuid of the target's
 * heap, and the target's offset in it, as global_ptr<T>. Zeroed memory is NULL. It may be copied by `=` and memcpy. */
typedef struct hf_global_ptr {
    uint64_t heap;
    uint64_t offset;
} hf_global_ptr;
/* The target's address in this process, valid until its heap is closed. NULL for NULL; else NULL, with hf_errorcode():
 * HF_NOT_FOUND where no heap of that uuid is open in this process, HF_BAD_ADDRESS where it ends before the target. */
void* hf_global_get(const hf_global_ptr* pointer);
/* HF_BAD_ADDRESS, and nothing changes, where the target is neither NULL nor in an open heap. */
hf_code hf_global_set(hf_global_ptr* pointer, const void* target);

/* As hf_ptr_set; HF_BAD_ADDRESS, and nothing changes, where the pointer lies in an open heap and the target neither is
 * NULL nor lies in the same. */
hf_code hf_ptr_set_checked(hf_ptr* pointer, const void* target);
/* In a program that is compiled so, hf_ptr_set and HF_SET are this. */
#if defined(HOLDFAST_CHECKED_POINTERS) && HOLDFAST_CHECKED_POINTERS
#define hf_ptr_set(pointer, target) ((void)hf_ptr_set_checked((pointer), (target)))
#endif

#ifdef __cplusplus
}
#endif
