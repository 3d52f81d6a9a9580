/* Durability `atomic` as a C11 program uses it. Usage: c_api_atomic_test DIRECTORY, which is created and emptied. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <holdfast/holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static char heap_path[1024];

static hf_options atomic_options(uint32_t domain) {
    hf_options options = HF_OPTIONS_INIT;
    options.durability = HF_DURABILITY_ATOMIC;
    options.domain = domain;
    options.accept_process_crash_only = 1;
    options.segment_size = (uint64_t)2 << 20;
    options.reservation = (uint64_t)1 << 30;
    return options;
}

static hf_heap* open_atomic(uint32_t domain) {
    const hf_options options = atomic_options(domain);
    hf_heap* heap = NULL;
    REQUIRE(hf_open_or_create(heap_path, &options, &heap) == HF_OK);
    return heap;
}

static int count_block(const hf_block_info* block, void* context) {
    EXPECT(block->address != NULL && block->bytes != 0);
    ++*(size_t*)context;
    return 0;
}

static int stop_at_third(const hf_block_info* block, void* context) {
    (void)block;
    return ++*(size_t*)context == 3;
}

static size_t blocks_of(const hf_heap* heap) {
    size_t count = 0;
    EXPECT(hf_for_each_block(heap, count_block, &count) == HF_OK);
    return count;
}

struct space {
    uint64_t end;
    size_t extents;
    uint32_t live;
    size_t last; /* visits that are wanted; 0: all */
};

static int count_extent(const hf_extent_info* extent, void* context) {
    struct space* space = context;
    EXPECT(extent->offset == space->end);
    EXPECT(extent->bytes != 0 && extent->backed_bytes <= extent->bytes);
    EXPECT((extent->kind == HF_EXTENT_ROOTS) == (space->extents == 0));
    EXPECT((extent->kind == HF_EXTENT_SLAB) == (extent->block_size != 0));
    space->end += extent->bytes;
    space->live += extent->live_blocks;
    return ++space->extents == space->last;
}

/* Extents tile the space, and their slabs have so many live blocks. */
static void expect_extents(const hf_heap* heap, uint32_t live) {
    struct space space = {0, 0, 0, 0};
    struct space first = {0, 0, 0, 1};
    EXPECT(hf_for_each_extent(heap, count_extent, &space) == HF_OK);
    EXPECT(space.end != 0 && space.end % (UINT64_C(2) << 20) == 0);
    EXPECT(space.live == live);
    EXPECT(hf_for_each_extent(heap, count_extent, &first) == HF_OK);
    EXPECT(first.extents == 1);
    EXPECT(hf_for_each_extent(heap, NULL, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_for_each_extent(NULL, count_extent, &space) == HF_INVALID_ARGUMENT);
}

static void expect_sound(const hf_heap* heap) {
    size_t problems = 1;
    EXPECT(hf_check(heap, 0, &problems, NULL, NULL) == HF_OK);
    EXPECT(problems == 0);
}

static void test_the_page_cache_is_to_be_accepted(void) {
    hf_options options = atomic_options(HF_DOMAIN_PAGE_CACHE);
    hf_heap* heap = NULL;
    options.accept_process_crash_only = 0;
    EXPECT(hf_create(heap_path, &options, &heap) == HF_PROMISE_UNAVAILABLE);
    EXPECT(strstr(hf_errormsg(), "accept_process_crash_only") != NULL);
    EXPECT(hf_open(heap_path, NULL, &heap) == HF_NOT_FOUND);
}

static void test_destinations(hf_heap* heap) {
    hf_ptr* const root = hf_root(heap, 0);
    hf_traits traits = HF_TRAITS_INIT;
    int freed = -1;
    REQUIRE(root != NULL);
    char* block = hf_allocate_to(heap, root, 100, NULL);
    REQUIRE(block != NULL);
    EXPECT(hf_ptr_get(root) == block && hf_root_get(heap, 0) == block);
    memset(block, 7, 100);
    EXPECT(hf_persist(heap, block, 100) == HF_OK);
    block = hf_realloc_to(heap, root, 200000, NULL);
    REQUIRE(block != NULL);
    EXPECT(block[0] == 7 && block[99] == 7 && hf_ptr_get(root) == block);
    EXPECT(blocks_of(heap) == 1);
    EXPECT(hf_free_from(heap, root, &freed) == HF_OK && freed == 1);
    EXPECT(hf_free_from(heap, root, &freed) == HF_OK && freed == 0);
    EXPECT(hf_free_from(heap, root, NULL) == HF_OK);
    EXPECT(hf_ptr_get(root) == NULL);

    traits.alignment = 4096;
    traits.zeroed = 1;
    block = hf_allocate_to(heap, root, 1000, &traits);
    REQUIRE(block != NULL);
    EXPECT((uintptr_t)block % 4096 == 0);
    for (int i = 0; i < 1000; ++i) {
        EXPECT(block[i] == 0);
    }
    /* A word in a block is a destination too. */
    EXPECT(hf_allocate_to(heap, (hf_ptr*)block, 8, NULL) != NULL);
    EXPECT(blocks_of(heap) == 2);
    EXPECT(hf_free_from(heap, (hf_ptr*)block, NULL) == HF_OK);
    EXPECT(hf_free_from(heap, root, NULL) == HF_OK);
    EXPECT(blocks_of(heap) == 0);
}

static int add_type(const hf_block_info* block, void* context) {
    *(uint32_t*)context += block->type;
    return 0;
}

static void test_types(hf_heap* heap) {
    hf_ptr* const root = hf_root(heap, 0);
    hf_ptr* const roots[] = {hf_root(heap, 1), hf_root(heap, 2)};
    hf_traits traits = HF_TRAITS_INIT;
    uint32_t type = 7;
    uint32_t sum = 0;
    void* block = hf_allocate_to(heap, root, 64, NULL);
    EXPECT(hf_type_of(heap, block, &type) == HF_OK && type == 0);
    EXPECT(hf_free_from(heap, root, NULL) == HF_OK);
    EXPECT(hf_type_of(heap, block, &type) == HF_BAD_ADDRESS && type == 0);
    traits.type = 5;
    block = hf_allocate_to(heap, root, 64, &traits);
    EXPECT(hf_type_of(heap, block, &type) == HF_OK && type == 5);
    EXPECT(hf_type_of(heap, block, NULL) == HF_INVALID_ARGUMENT);
    block = hf_realloc_to(heap, root, 50000, NULL);
    EXPECT(hf_type_of(heap, block, &type) == HF_OK && type == 5);
    traits.type = (1u << 20) - 1;
    block = hf_realloc_to(heap, root, 100, &traits);
    EXPECT(hf_type_of(heap, block, &type) == HF_OK && type == traits.type);
    traits.type = 1000;
    EXPECT(hf_allocate_batch(heap, roots, 2, 64, &traits) == HF_OK);
    EXPECT(hf_for_each_block(heap, add_type, &sum) == HF_OK && sum == (1u << 20) - 1 + 2000);
    EXPECT(hf_free_batch(heap, roots, 2) == HF_OK);
    /* A caller whose struct ends before the type: none. */
    traits.size = offsetof(hf_traits, type);
    EXPECT(hf_allocate_to(heap, roots[0], 64, &traits) != NULL);
    EXPECT(hf_type_of(heap, hf_ptr_get(roots[0]), &type) == HF_OK && type == 0);
    EXPECT(hf_free_from(heap, roots[0], NULL) == HF_OK);
    traits.size = sizeof traits;
    traits.type = 1u << 20;
    EXPECT(hf_allocate_to(heap, roots[0], 64, &traits) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    EXPECT(hf_reserve(heap, 50000, &traits) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    EXPECT(hf_free_from(heap, root, NULL) == HF_OK);
    EXPECT(blocks_of(heap) == 0);
}

static void test_reserve(hf_heap* heap) {
    char* const reserved = hf_reserve(heap, 500, NULL);
    char* const other = hf_reserve(heap, 3u << 20, NULL);
    REQUIRE(reserved != NULL && other != NULL);
    memset(reserved, 3, 500);
    EXPECT(hf_flush(heap, reserved, 500) == HF_OK);
    EXPECT(hf_drain(heap) == HF_OK);
    EXPECT(blocks_of(heap) == 0);
    EXPECT(hf_publish(heap, hf_root(heap, 1), reserved) == HF_OK);
    EXPECT(hf_root_get(heap, 1) == reserved && blocks_of(heap) == 1);
    EXPECT(hf_publish(heap, hf_root(heap, 2), reserved) == HF_BAD_ADDRESS);
    EXPECT(hf_root_get(heap, 2) == NULL);
    EXPECT(hf_cancel(heap, other) == HF_OK);
    EXPECT(hf_cancel(heap, other) == HF_BAD_ADDRESS);
    EXPECT(hf_free_from(heap, hf_root(heap, 1), NULL) == HF_OK);
}

static void test_batches(hf_heap* heap) {
    hf_ptr* roots[40];
    size_t visits = 0;
    for (size_t i = 0; i < 40; ++i) {
        roots[i] = hf_root(heap, 100 + i);
    }
    EXPECT(hf_allocate_batch(heap, roots, 40, 64, NULL) == HF_OK);
    EXPECT(blocks_of(heap) == 40);
    expect_extents(heap, 40);
    EXPECT(hf_for_each_block(heap, stop_at_third, &visits) == HF_OK);
    EXPECT(visits == 3);
    EXPECT(hf_free_from(heap, roots[20], NULL) == HF_OK);
    EXPECT(hf_free_batch(heap, roots, 40) == HF_OK);
    EXPECT(blocks_of(heap) == 0);
    EXPECT(hf_free_batch(heap, NULL, 0) == HF_OK);
    EXPECT(hf_free_batch(heap, NULL, 1) == HF_INVALID_ARGUMENT);
    roots[1] = NULL;
    EXPECT(hf_allocate_batch(heap, roots, 2, 64, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(strstr(hf_errormsg(), "destinations[1]") != NULL);
    EXPECT(blocks_of(heap) == 0);
}

static void test_errors_change_nothing(hf_heap* heap) {
    struct {
        hf_traits known;
        uint64_t of_a_later_version;
    } longer = {HF_TRAITS_INIT, 1};
    hf_ptr outside = {0};
    hf_ptr* const root = hf_root(heap, 0);
    hf_traits traits = HF_TRAITS_INIT;
    EXPECT(hf_root(heap, HF_ROOT_COUNT) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    EXPECT(hf_allocate_to(heap, &outside, 64, NULL) == NULL && hf_errorcode() == HF_BAD_ADDRESS);
    EXPECT(hf_allocate_to(heap, NULL, 64, NULL) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    EXPECT(hf_allocate_to(NULL, root, 64, NULL) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    EXPECT(hf_allocate_to(heap, root, 0, NULL) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    traits.alignment = 3;
    EXPECT(hf_allocate_to(heap, root, 64, &traits) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    traits.alignment = 0;
    traits.size = 1;
    EXPECT(hf_reserve(heap, 64, &traits) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    longer.known.size = sizeof longer;
    EXPECT(hf_reserve(heap, 64, &longer.known) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    hf_ptr_set(root, &outside);
    EXPECT(hf_free_from(heap, root, NULL) == HF_BAD_ADDRESS);
    hf_ptr_set(root, NULL);
    EXPECT(hf_publish(heap, root, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_for_each_block(heap, NULL, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_persist(NULL, heap, 1) == HF_INVALID_ARGUMENT);
    EXPECT(hf_get_counters(heap, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_durability(NULL) == 0 && hf_domain(NULL) == NULL);
    EXPECT(blocks_of(heap) == 0);
}

static void test_counters(hf_heap* heap, int by_checkpoints) {
    hf_counters before = HF_COUNTERS_INIT;
    hf_counters after = HF_COUNTERS_INIT;
    EXPECT(hf_get_counters(heap, &before) == HF_OK);
    for (int i = 0; i < 1000; ++i) {
        EXPECT(hf_allocate_to(heap, hf_root(heap, 0), 64, NULL) != NULL);
        EXPECT(hf_free_from(heap, hf_root(heap, 0), NULL) == HF_OK);
    }
    EXPECT(hf_checkpoint(heap) == HF_OK);
    EXPECT(hf_get_counters(heap, &after) == HF_OK);
    EXPECT(after.size == sizeof after);
    EXPECT(after.durable_records - before.durable_records >= 2000);
    EXPECT(after.durable_records - before.durable_records < 2010);
    EXPECT((after.checkpoints > before.checkpoints) == by_checkpoints);
    EXPECT(after.lanes >= 1);
    after.size = 0;
    EXPECT(hf_get_counters(heap, &after) == HF_INVALID_ARGUMENT);
}

static void test_shrink(hf_heap* heap) {
    hf_shrink_report report = HF_SHRINK_REPORT_INIT;
    for (size_t i = 0; i < 20; ++i) {
        void* const block = hf_allocate_to(heap, hf_root(heap, i), 1u << 20, NULL);
        REQUIRE(block != NULL);
        memset(block, 1, 1u << 20);
    }
    for (size_t i = 0; i < 20; ++i) {
        EXPECT(hf_free_from(heap, hf_root(heap, i), NULL) == HF_OK);
    }
    EXPECT(hf_shrink(heap, 0, &report) == HF_OK);
    EXPECT(report.size == sizeof report);
    EXPECT(report.charged_after < report.charged_before);
    EXPECT(report.given_back + report.shortened > (10u << 20));
    EXPECT(hf_shrink(heap, UINT64_MAX, NULL) == HF_OK);
    report.size = 0;
    EXPECT(hf_shrink(heap, 0, &report) == HF_INVALID_ARGUMENT);
    EXPECT(hf_shrink(NULL, 0, NULL) == HF_INVALID_ARGUMENT);
    int followed = 7;
    EXPECT(hf_follow_this_thread(heap, &followed) == HF_OK);
    EXPECT(followed == 0); /* the heap has one directory */
    EXPECT(hf_follow_this_thread(heap, NULL) == HF_OK);
    EXPECT(hf_follow_this_thread(NULL, NULL) == HF_INVALID_ARGUMENT);
}

/* 100 blocks, each its number, and one that was reserved; then the process is gone. */
static void die_with_blocks(uint32_t domain) {
    hf_heap* const heap = open_atomic(domain);
    for (size_t i = 0; i < 100; ++i) {
        int* const block = hf_reserve(heap, sizeof(int), NULL);
        REQUIRE(block != NULL);
        *block = (int)i;
        EXPECT(hf_persist(heap, block, sizeof *block) == HF_OK);
        EXPECT(hf_publish(heap, hf_root(heap, i), block) == HF_OK);
    }
    EXPECT(hf_reserve(heap, 1u << 20, NULL) != NULL);
    if (failures == 0) {
        (void)raise(SIGKILL);
    }
    exit(EXIT_FAILURE);
}

static void test_a_crash(uint32_t domain) {
    hf_recovery recovery = HF_RECOVERY_INIT;
    hf_heap* heap = NULL;
    int status = 0;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        die_with_blocks(domain);
    }
    EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));

    REQUIRE(hf_open_read_only(heap_path, NULL, &heap) == HF_OK);
    EXPECT(hf_get_recovery(heap, &recovery) == HF_OK);
    EXPECT(recovery.size == sizeof recovery && recovery.lanes >= 1);
    EXPECT((recovery.pending >= 100) == (domain != HF_DOMAIN_PAGE_CACHE));
    EXPECT(hf_allocate_to(heap, hf_root(heap, 0), 8, NULL) == NULL && hf_errorcode() == HF_READ_ONLY);
    EXPECT(blocks_of(heap) == 100);
    EXPECT(hf_close(heap) == HF_OK);

    heap = open_atomic(domain);
    EXPECT(blocks_of(heap) == 100);
    expect_sound(heap);
    for (size_t i = 0; i < 100; ++i) {
        const int* const block = hf_root_get(heap, i);
        EXPECT(block != NULL && *block == (int)i);
        EXPECT(hf_free_from(heap, hf_root(heap, i), NULL) == HF_OK);
    }
    EXPECT(blocks_of(heap) == 0);
    EXPECT(hf_close(heap) == HF_OK);
    REQUIRE(hf_open(heap_path, NULL, &heap) == HF_OK);
    EXPECT(hf_get_recovery(heap, &recovery) == HF_OK);
    EXPECT(recovery.lanes == 0 && recovery.pending == 0);
    EXPECT(hf_durability(heap) == HF_DURABILITY_COMMIT);
    EXPECT(hf_close(heap) == HF_OK);
}

static void test_durability_commit_has_the_same_calls(void) {
    hf_counters counters = HF_COUNTERS_INIT;
    hf_heap* heap = NULL;
    REQUIRE(hf_open(heap_path, NULL, &heap) == HF_OK);
    EXPECT(hf_allocate_to(heap, hf_root(heap, 5), 64, NULL) != NULL);
    EXPECT(hf_commit(heap) == HF_OK);
    EXPECT(hf_free_from(heap, hf_root(heap, 5), NULL) == HF_OK);
    EXPECT(hf_get_counters(heap, &counters) == HF_OK && counters.durable_records == 0);
    EXPECT(hf_discard(heap) == HF_OK);
    REQUIRE(hf_open(heap_path, NULL, &heap) == HF_OK);
    EXPECT(hf_root_get(heap, 5) != NULL && blocks_of(heap) == 1);
    EXPECT(hf_close(heap) == HF_OK);
}

static void remove_heap(void) {
    const hf_code removed = hf_remove(heap_path);
    EXPECT(removed == HF_OK || removed == HF_NOT_FOUND);
}

int main(int count, char** arguments) {
    static const uint32_t domains[] = {HF_DOMAIN_PAGE_CACHE, HF_DOMAIN_EMULATED, HF_DOMAIN_DISK};
    static const char* const names[] = {"page-cache", "emulated", "disk"};
    if (count != 2) {
        fprintf(stderr, "usage: c_api_atomic_test DIRECTORY\n");
        return EXIT_FAILURE;
    }
    (void)mkdir(arguments[1], 0777);
    (void)snprintf(heap_path, sizeof heap_path, "%s/c.hf", arguments[1]);
    remove_heap();
    test_the_page_cache_is_to_be_accepted();
    for (size_t i = 0; i < 3; ++i) {
        hf_heap* const heap = open_atomic(domains[i]);
        EXPECT(hf_durability(heap) == HF_DURABILITY_ATOMIC);
        EXPECT(strcmp(hf_domain(heap), names[i]) == 0);
        test_destinations(heap);
        test_types(heap);
        test_reserve(heap);
        test_batches(heap);
        test_errors_change_nothing(heap);
        test_counters(heap, domains[i] != HF_DOMAIN_PAGE_CACHE);
        test_shrink(heap);
        expect_sound(heap);
        EXPECT(hf_close(heap) == HF_OK);
        test_a_crash(domains[i]);
    }
    test_durability_commit_has_the_same_calls();
    remove_heap();
    printf("%d failures\n", failures);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
