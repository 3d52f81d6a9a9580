/* Pointers of the C interface that know the type of their target, so that no cast is written and a wrong one is a
 * warning of the compiler.
 *
 *     struct node {
 *         HF_PTR(struct node) next;
 *         int number;
 *     };
 *     struct list {
 *         HF_PTR(struct node) first;
 *     };
 *
 *     struct node *made = HF_NEW(heap, list->first);            // hf_allocate_to: zeroed, and list->first points to it
 *     HF_SET(made->next, NULL);
 *     for (struct node *each = HF_GET(list->first); each != NULL; each = HF_GET(each->next)) { ... }
 *
 * A typed pointer is an hf_ptr, 8 bytes; `.pointer` is the hf_ptr for what takes one. As an hf_ptr it is not copied by
 * memcpy or `=`: two typed pointers have two types, so that the compiler refuses `=` of one to another.
 *
 * The macros are those of GNU C (__typeof__), which gcc and clang have in all standards of C. C++ has holdfast::ptr. */
#pragma once

#include <holdfast/pointers.h>
#include <holdfast/transaction.h>

/* Declares a typed pointer in a struct of the heap. Zeroed memory is NULL. */
#define HF_PTR(type)                                                           \
    union {                                                                    \
        hf_ptr pointer;                                                        \
        type* target_type; /* for the compiler alone: never read or written */ \
    }

#define HF_TARGET_TYPE(typed) __typeof__((typed).target_type)
/* `target`, or a warning where it does not point to the type that the pointer does. */
#define HF_CHECKED_TARGET(typed, target) (1 ? (target) : (typed).target_type)
#define HF_ZEROED (&(const hf_traits){sizeof(hf_traits), 0, 1, 0})

/* As hf_ptr_get, and hf_ptr_set. */
#define HF_GET(typed) ((HF_TARGET_TYPE(typed))hf_ptr_get(&(typed).pointer))
#define HF_SET(typed, target) hf_ptr_set(&(typed).pointer, HF_CHECKED_TARGET(typed, target))

/* As hf_allocate_to of a zeroed object; NULL on failure. The typed pointer lies in the heap. */
#define HF_NEW(heap, typed) \
    ((HF_TARGET_TYPE(typed))hf_allocate_to((heap), &(typed).pointer, sizeof *(typed).target_type, HF_ZEROED))
/* As hf_free_from: an hf_code. */
#define HF_FREE(heap, typed) hf_free_from((heap), &(typed).pointer, NULL)

/* In a transaction: as hf_open_range of a whole object, hf_ptr_get_in, hf_ptr_set_in, hf_allocate_in of a zeroed
 * object, and hf_free_in. */
#define HF_OPEN(transaction, object) ((__typeof__(object))hf_open_range((transaction), (object), sizeof *(object)))
#define HF_GET_IN(transaction, typed) ((HF_TARGET_TYPE(typed))hf_ptr_get_in((transaction), &(typed).pointer))
#define HF_SET_IN(transaction, typed, target) \
    hf_ptr_set_in((transaction), &(typed).pointer, HF_CHECKED_TARGET(typed, target))
#define HF_NEW_IN(transaction, type) ((type*)hf_allocate_in((transaction), sizeof(type), HF_ZEROED))

/* The target of root `index` as a type*, and the object of a name, made of zeros where it is not there; NULL on
 * failure. The name of the type is part of the heap. */
#define HF_ROOT(heap, index, type) ((type*)hf_root_get((heap), (index)))
#define HF_OBJECT(heap, name, type) ((type*)hf_typed_object((heap), (name), #type, sizeof(type)))

static inline void* hf_typed_object(hf_heap* heap, const char* name, const char* type, size_t bytes) {
    void* object = NULL;
    return hf_object_find_or_create(heap, name, type, bytes, 1, &object, NULL) == HF_OK ? object : NULL;
}
