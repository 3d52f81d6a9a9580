/* Pointers between heaps, and checked pointers. Usage: c_api_pointers_test DIRECTORY, which is created and emptied. */
#define _POSIX_C_SOURCE 200809L
#define HOLDFAST_CHECKED_POINTERS 1
#include <sys/stat.h>

#include <holdfast/typed.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

struct customer {
    uint64_t number;
};
struct order {
    hf_global_ptr by;
    HF_PTR(struct order) next;
};

static char paths[2][1024];
static hf_heap* heaps[2];

static void open_heap(int which) {
    hf_options options = HF_OPTIONS_INIT;
    options.reservation = (uint64_t)1 << 30u;
    REQUIRE(hf_open_or_create(paths[which], &options, &heaps[which]) == HF_OK);
}

static void test_lead_to_another_heap(void) {
    struct customer* const seven = HF_OBJECT(heaps[1], "seven", struct customer);
    struct order* const one = HF_OBJECT(heaps[0], "one", struct order);
    REQUIRE(seven != NULL && one != NULL);
    EXPECT(one->by.heap == 0 && hf_global_get(&one->by) == NULL);
    seven->number = 7;
    EXPECT(hf_global_set(&one->by, seven) == HF_OK);
    const hf_global_ptr copied = one->by;
    EXPECT(hf_global_get(&copied) == seven);
    struct customer local = {1};
    EXPECT(hf_global_set(&one->by, &local) == HF_BAD_ADDRESS);
    EXPECT(hf_global_get(&one->by) == seven);
    EXPECT(hf_global_set(NULL, seven) == HF_INVALID_ARGUMENT);
    EXPECT(hf_global_get(NULL) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    REQUIRE(hf_close(heaps[1]) == HF_OK);
    EXPECT(hf_global_get(&one->by) == NULL && hf_errorcode() == HF_NOT_FOUND);
    open_heap(1);
    const struct customer* const found = hf_global_get(&one->by);
    EXPECT(found != NULL && found->number == 7);
    EXPECT(hf_global_set(&one->by, NULL) == HF_OK && hf_global_get(&one->by) == NULL);
}

static void test_checked_pointers_stay_in_their_heap(void) {
    struct order* const one = HF_OBJECT(heaps[0], "one", struct order);
    struct order* const two = HF_OBJECT(heaps[0], "two", struct order);
    struct order* const foreign = HF_OBJECT(heaps[1], "foreign", struct order);
    REQUIRE(one != NULL && two != NULL && foreign != NULL);
    HF_SET(one->next, two);
    EXPECT(HF_GET(one->next) == two);
    HF_SET(one->next, foreign);
    EXPECT(hf_errorcode() == HF_BAD_ADDRESS);
    EXPECT(HF_GET(one->next) == two);
    EXPECT(hf_ptr_set_checked(&one->next.pointer, foreign) == HF_BAD_ADDRESS);
    EXPECT(hf_ptr_set_checked(NULL, foreign) == HF_INVALID_ARGUMENT);
    struct order local;
    memset(&local, 0, sizeof local);
    HF_SET(local.next, foreign);
    EXPECT(HF_GET(local.next) == foreign);
    HF_SET(one->next, NULL);
    EXPECT(HF_GET(one->next) == NULL);
}

int main(int argc, char** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return EXIT_FAILURE;
    }
    mkdir(argv[1], 0755);
    for (int which = 0; which < 2; ++which) {
        snprintf(paths[which], sizeof paths[which], "%s/heap.%d", argv[1], which);
        const hf_code removed = hf_remove(paths[which]);
        EXPECT(removed == HF_OK || removed == HF_NOT_FOUND);
        open_heap(which);
    }
    test_lead_to_another_heap();
    test_checked_pointers_stay_in_their_heap();
    for (int which = 0; which < 2; ++which) {
        EXPECT(hf_close(heaps[which]) == HF_OK && hf_remove(paths[which]) == HF_OK);
    }
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
