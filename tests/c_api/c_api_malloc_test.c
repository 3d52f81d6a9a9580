/* The family of malloc on a heap. Usage: c_api_malloc_test DIRECTORY, which is created and emptied. */
#define _POSIX_C_SOURCE 200809L
#include <sys/stat.h>

#include <errno.h>
#include <holdfast/holdfast.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static char heap_path[1024];
static hf_heap* heap = NULL;

static int is_filled(const unsigned char* block, size_t bytes, unsigned char with) {
    for (size_t i = 0; i < bytes; ++i) {
        if (block[i] != with) {
            return 0;
        }
    }
    return 1;
}

static void test_blocks_are_aligned_and_large_enough(void) {
    static const size_t sizes[] = {0, 1, 8, 15, 16, 17, 100, 1000, 14336, 20000, 1u << 20u};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        unsigned char* const block = hf_malloc(heap, sizes[i]);
        EXPECT(block != NULL && (uintptr_t)block % 16 == 0);
        EXPECT(hf_usable_size(heap, block) >= sizes[i]);
        memset(block, 0x5a, hf_usable_size(heap, block));
        EXPECT(hf_free(heap, block) == HF_OK);
        unsigned char* const zeroed = hf_calloc(heap, sizes[i], 3);
        EXPECT(zeroed != NULL && (uintptr_t)zeroed % 16 == 0 && is_filled(zeroed, 3 * sizes[i], 0));
        EXPECT(hf_free(heap, zeroed) == HF_OK);
        EXPECT(hf_free(heap, zeroed) == HF_BAD_ADDRESS);
    }
    for (size_t alignment = 1; alignment <= (size_t)2 << 20u; alignment *= 2) {
        void* const block = hf_aligned_alloc(heap, alignment, 100);
        EXPECT(block != NULL && (uintptr_t)block % alignment == 0);
        EXPECT(hf_free(heap, block) == HF_OK);
    }
}

static void test_reallocation_keeps_the_content(void) {
    unsigned char* block = hf_realloc(heap, NULL, 10);
    REQUIRE(block != NULL);
    memset(block, 7, 10);
    block = hf_realloc(heap, block, 100000);
    REQUIRE(block != NULL);
    EXPECT(is_filled(block, 10, 7));
    memset(block, 7, 100000);
    unsigned char* const same = hf_realloc(heap, block, 90000);
    EXPECT(same == block);
    block = hf_realloc(heap, block, 200);
    REQUIRE(block != NULL);
    EXPECT(is_filled(block, 200, 7));
    EXPECT(hf_usable_size(heap, block) < 1000);
    block = hf_realloc(heap, block, 0);
    EXPECT(block != NULL);
    EXPECT(hf_free(heap, block) == HF_OK);
    EXPECT(hf_free(heap, NULL) == HF_OK);
}

/* A block of whole pages takes free pages behind it, in the durabilities that need no record for that. */
static void test_large_blocks_are_resized_in_place(int in_place) {
    const size_t start = 100000;
    unsigned char* const first = hf_malloc(heap, start);
    REQUIRE(first != NULL);
    memset(first, 9, start);
    unsigned char* block = first;
    unsigned moves = 0;
    for (size_t bytes = start; bytes <= 64 * start; bytes += start) {
        unsigned char* const grown = hf_realloc(heap, block, bytes);
        REQUIRE(grown != NULL);
        moves += grown != block;
        block = grown;
        EXPECT(hf_usable_size(heap, block) >= bytes);
        block[bytes - 1] = 9;
    }
    EXPECT(is_filled(block, start, 9));
    EXPECT(!in_place || moves <= 2); /* out of the gaps that earlier tests left */
    const unsigned char* const last = block;
    void* const behind = hf_malloc(heap, start);
    block = hf_realloc(heap, block, start);
    REQUIRE(block != NULL);
    EXPECT(is_filled(block, start, 9) && hf_usable_size(heap, block) < 2 * start);
    EXPECT(!in_place || block == last);
    EXPECT(hf_free(heap, behind) == HF_OK);
    EXPECT(hf_free(heap, block) == HF_OK);
}

/* The copies of a block that grows in small steps are few: one that has to move gets more than was asked for. */
static void test_a_block_that_moves_has_room_for_the_next_step(void) {
    const size_t page = 4096;
    const size_t steps = 512;
    unsigned char* block = hf_malloc(heap, 32 * page);
    unsigned moves = 0;
    for (size_t step = 0; step < steps; ++step) {
        unsigned char* const grown = hf_realloc(heap, block, (33 + step) * page);
        REQUIRE(grown != NULL);
        moves += grown != block;
        block = grown;
    }
    EXPECT(moves < 32);
    EXPECT(hf_free(heap, block) == HF_OK);
}

/* Where no smaller block would be had, also in a heap whose smallest blocks are whole cache lines. */
static void test_a_smallest_block_that_shrinks_stays(size_t smallest) {
    unsigned char* const block = hf_malloc(heap, 20);
    REQUIRE(block != NULL);
    memset(block, 7, 20);
    const size_t usable = hf_usable_size(heap, block);
    EXPECT(usable == smallest);
    static const size_t sizes[] = {32, 20, 16, 1, 0, 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        EXPECT(hf_realloc(heap, block, sizes[i]) == block);
    }
    EXPECT(hf_realloc(heap, block, usable) == block);
    EXPECT(is_filled(block, 20, 7));
    unsigned char* const moved = hf_realloc(heap, block, usable + 1);
    EXPECT(moved != NULL && moved != block && is_filled(moved, 20, 7));
    EXPECT(hf_usable_size(heap, moved) > usable);
    unsigned char* const small = hf_realloc(heap, moved, 20);
    EXPECT(small != NULL && small != moved && is_filled(small, 20, 7));
    EXPECT(hf_usable_size(heap, small) <= usable);
    EXPECT(hf_free(heap, small) == HF_OK);
}

/* A block may have been asked for at a smaller alignment than that of malloc. */
static void test_a_block_that_is_not_aligned_as_by_malloc_moves(void) {
    for (size_t i = 0; i < 100; ++i) {
        unsigned char* const block = hf_allocate_aligned(heap, 24, 8);
        REQUIRE(block != NULL);
        memset(block, 7, 24);
        unsigned char* const same = hf_realloc(heap, block, 24);
        EXPECT(same != NULL && (uintptr_t)same % 16 == 0 && is_filled(same, 24, 7));
        EXPECT((same == block) == ((uintptr_t)block % 16 == 0));
    }
}

static void test_failures_are_told(void) {
    char here = 0;
    errno = 0;
    EXPECT(hf_malloc(heap, SIZE_MAX / 2) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(hf_calloc(heap, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM && hf_errorcode() == HF_OUT_OF_MEMORY);
    errno = 0;
    EXPECT(hf_aligned_alloc(heap, 24, 100) == NULL && errno == EINVAL);
    EXPECT(hf_realloc(heap, &here, 100) == NULL && hf_errorcode() == HF_BAD_ADDRESS);
    EXPECT(hf_malloc(NULL, 1) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    void* const block = hf_malloc(heap, 100);
    memset(block, 3, 100);
    EXPECT(hf_realloc(heap, block, SIZE_MAX / 2) == NULL);
    EXPECT(is_filled(block, 100, 3));
    EXPECT(hf_free(heap, block) == HF_OK);
}

static void test_in(uint32_t durability, uint32_t separate_cache_lines) {
    hf_options options = HF_OPTIONS_INIT;
    options.durability = durability;
    options.accept_process_crash_only = 1;
    options.separate_cache_lines = separate_cache_lines;
    options.reservation = (uint64_t)1 << 32u;
    REQUIRE(hf_create(heap_path, &options, &heap) == HF_OK);
    EXPECT(hf_durability(heap) == durability);
    test_blocks_are_aligned_and_large_enough();
    test_reallocation_keeps_the_content();
    test_large_blocks_are_resized_in_place(durability != HF_DURABILITY_ATOMIC);
    test_a_block_that_moves_has_room_for_the_next_step();
    test_a_smallest_block_that_shrinks_stays(separate_cache_lines ? 64 : 32);
    test_a_block_that_is_not_aligned_as_by_malloc_moves();
    test_failures_are_told();
    char* const kept = hf_malloc(heap, 6);
    memcpy(kept, "hello", 6);
    EXPECT(hf_root_set(heap, 0, kept) == HF_OK);
    size_t problems = 1;
    EXPECT(hf_check(heap, 0, &problems, NULL, NULL) == HF_OK && problems == 0);
    REQUIRE(hf_close(heap) == HF_OK);
    REQUIRE(hf_open_read_only(heap_path, NULL, &heap) == HF_OK);
    const char* const found = hf_root_get(heap, 0);
    EXPECT(found != NULL && strcmp(found, "hello") == 0);
    EXPECT(hf_malloc(heap, 1) == NULL && hf_errorcode() == HF_READ_ONLY);
    REQUIRE(hf_close(heap) == HF_OK);
    EXPECT(hf_remove(heap_path) == HF_OK);
}

int main(int argc, char** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return EXIT_FAILURE;
    }
    mkdir(argv[1], 0755);
    snprintf(heap_path, sizeof heap_path, "%s/heap", argv[1]);
    const hf_code removed = hf_remove(heap_path);
    EXPECT(removed == HF_OK || removed == HF_NOT_FOUND);
    for (uint32_t separate = 0; separate < 2; ++separate) {
        test_in(HF_DURABILITY_COMMIT, separate);
        test_in(HF_DURABILITY_COLLECT, separate);
        test_in(HF_DURABILITY_ATOMIC, separate);
    }
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
