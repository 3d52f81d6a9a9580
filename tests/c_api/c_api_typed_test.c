/* Typed pointers as a C11 program uses them. Usage: c_api_typed_test DIRECTORY, which is created and emptied. */
#define _POSIX_C_SOURCE 200809L
#include <sys/stat.h>

#include <holdfast/typed.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

struct node {
    HF_PTR(struct node) next;
    int64_t number;
};
struct list {
    HF_PTR(struct node) first;
    uint64_t size;
};
_Static_assert(sizeof(struct node) == 16, "a typed pointer takes 8 bytes");

static hf_heap* open_heap(const char* path, uint32_t durability) {
    hf_options options = HF_OPTIONS_INIT;
    options.durability = durability;
    options.domain = durability == HF_DURABILITY_COMMIT ? HF_DOMAIN_DETECT : HF_DOMAIN_EMULATED;
    options.accept_process_crash_only = 1;
    options.segment_size = (uint64_t)2 << 20;
    options.reservation = (uint64_t)1 << 30;
    hf_heap* heap = NULL;
    REQUIRE(hf_open_or_create(path, &options, &heap) == HF_OK);
    return heap;
}

static int64_t sum_of(struct list* list) {
    int64_t sum = 0;
    for (const struct node* each = HF_GET(list->first); each != NULL; each = HF_GET(each->next)) {
        sum = 10 * sum + each->number;
    }
    return sum;
}

static void push_alone(hf_heap* heap, struct list* list, int64_t number) {
    struct node* second = HF_GET(list->first);
    struct node* made = HF_NEW(heap, list->first);
    REQUIRE(made != NULL && made->number == 0 && HF_GET(made->next) == NULL);
    made->number = number;
    HF_SET(made->next, second);
}

static void push_in_transaction(hf_heap* heap, struct list* in_heap, int64_t number, int keeps) {
    hf_transaction* tx = NULL;
    REQUIRE(hf_begin(heap, &tx) == HF_OK);
    struct list* list = HF_OPEN(tx, in_heap);
    struct node* made = HF_NEW_IN(tx, struct node);
    REQUIRE(list != NULL && made != NULL);
    made->number = number;
    REQUIRE(HF_SET_IN(tx, made->next, HF_GET_IN(tx, list->first)) == HF_OK);
    REQUIRE(HF_SET_IN(tx, list->first, made) == HF_OK);
    REQUIRE(HF_GET_IN(tx, list->first) == made);
    ++list->size;
    if (keeps) {
        REQUIRE(hf_commit_transaction(tx) == HF_OK);
    } else {
        hf_abort(tx);
    }
}

static void test(const char* path, uint32_t durability) {
    hf_heap* heap = open_heap(path, durability);
    struct list* list = HF_OBJECT(heap, "list", struct list);
    REQUIRE(list != NULL);
    push_alone(heap, list, 1);
    push_in_transaction(heap, list, 2, 1);
    push_in_transaction(heap, list, 9, 0);
    push_alone(heap, list, 3);
    REQUIRE(sum_of(list) == 321 && list->size == 1);
    REQUIRE(hf_root_set(heap, 5, list) == HF_OK);
    REQUIRE(HF_OBJECT(heap, "list", struct node) == NULL && hf_errorcode() == HF_TYPE_MISMATCH);
    REQUIRE(hf_close(heap) == HF_OK);

    heap = open_heap(path, durability);
    struct list* found = HF_ROOT(heap, 5, struct list);
    REQUIRE(found == HF_OBJECT(heap, "list", struct list) && sum_of(found) == 321);
    struct node* first = HF_GET(found->first);
    HF_SET(found->first, HF_GET(first->next));
    REQUIRE(hf_free(heap, first) == HF_OK && sum_of(found) == 21);
    REQUIRE(HF_FREE(heap, HF_GET(found->first)->next) == HF_OK && sum_of(found) == 2);
    REQUIRE(hf_close(heap) == HF_OK);
}

int main(int count, char** arguments) {
    REQUIRE(count == 2);
    const uint32_t durabilities[] = {HF_DURABILITY_COMMIT, HF_DURABILITY_COLLECT, HF_DURABILITY_ATOMIC};
    mkdir(arguments[1], 0777);
    for (size_t i = 0; i < sizeof durabilities / sizeof *durabilities; ++i) {
        char path[1024];
        char command[1100];
        snprintf(path, sizeof path, "%s/%zu", arguments[1], i);
        snprintf(command, sizeof command, "rm -rf '%s'", path);
        REQUIRE(system(command) == 0);
        test(path, durabilities[i]);
    }
    puts("c_api_typed_test: typed pointers work in every durability");
    return 0;
}
