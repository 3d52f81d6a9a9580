/* The C API as a C11 program uses it. Usage: c_api_test DIRECTORY, which is created and emptied. */
#define _POSIX_C_SOURCE 200809L
#include <sys/stat.h>
#include <unistd.h>

#include <holdfast/holdfast.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static char heap_path[1024];
static char copy_path[1024];

typedef struct node {
    hf_ptr next;
    int value;
} node;

static void remove_if_there(const char* path) {
    const hf_code removed = hf_remove(path);
    EXPECT(removed == HF_OK || removed == HF_NOT_FOUND);
}

static void test_errors_are_told(void) {
    hf_heap* heap = NULL;
    EXPECT(strcmp(hf_code_name(HF_NO_SPACE), "no_space") == 0);
    EXPECT(strcmp(hf_code_name((hf_code)9999), "unknown") == 0);
    EXPECT(hf_open(heap_path, NULL, &heap) == HF_NOT_FOUND);
    EXPECT(heap == NULL);
    EXPECT(hf_errorcode() == HF_NOT_FOUND);
    EXPECT(strstr(hf_errormsg(), heap_path) != NULL);
    EXPECT(hf_open(NULL, NULL, &heap) == HF_INVALID_ARGUMENT);
    EXPECT(strstr(hf_errormsg(), "path") != NULL);
    EXPECT(hf_open(heap_path, NULL, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_commit(NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_allocate(NULL, 16) == NULL);
    EXPECT(hf_errorcode() == HF_INVALID_ARGUMENT);
    EXPECT(hf_close(NULL) == HF_OK);
    EXPECT(hf_discard(NULL) == HF_OK);
    EXPECT(hf_consistent(heap_path) == 0);
    EXPECT(hf_remove(heap_path) == HF_NOT_FOUND);
}

static void test_segments_in_two_places(void) {
    static char place[1100];
    const char* directories[2] = {"", place};
    hf_options options = HF_OPTIONS_INIT;
    hf_heap* heap = NULL;
    snprintf(place, sizeof place, "%s.place", heap_path);
    EXPECT(mkdir(place, 0755) == 0);
    options.segment_size = 2u << 20u;
    options.nodes = 2;
    EXPECT(hf_create(heap_path, &options, &heap) == HF_INVALID_ARGUMENT); /* and no directories */
    options.node_directories = directories;
    options.huge_pages = 3;
    EXPECT(hf_create(heap_path, &options, &heap) == HF_INVALID_ARGUMENT);
    options.huge_pages = HF_HUGE_PAGES_NONE;
    EXPECT(hf_create(heap_path, &options, &heap) == HF_OK);
    EXPECT(hf_allocate(heap, 5u << 20u) != NULL);
    EXPECT(hf_close(heap) == HF_OK);
    EXPECT(hf_copy_placed(heap_path, copy_path, &options) == HF_OK);
    EXPECT(hf_remove(copy_path) == HF_OK);
    EXPECT(hf_copy_placed(heap_path, copy_path, NULL) == HF_OK);
    EXPECT(hf_remove(copy_path) == HF_OK);
    EXPECT(hf_remove(heap_path) == HF_OK);
    EXPECT(rmdir(place) == 0); /* nothing is left there */
}

static void test_options_are_versioned(void) {
    struct {
        hf_options known;
        uint64_t of_a_later_version;
    } longer = {HF_OPTIONS_INIT, 0};
    hf_options options = HF_OPTIONS_INIT;
    hf_heap* heap = NULL;
    options.size = 1;
    EXPECT(hf_create(heap_path, &options, &heap) == HF_INVALID_ARGUMENT);
    options.size = sizeof options;
    options.durability = 99;
    EXPECT(hf_create(heap_path, &options, &heap) == HF_INVALID_ARGUMENT);
    longer.known.size = sizeof longer;
    longer.of_a_later_version = 1;
    EXPECT(hf_create(heap_path, &longer.known, &heap) == HF_INVALID_ARGUMENT);
    longer.of_a_later_version = 0;
    options.durability = 0;
    options.domain = 4;
    EXPECT(hf_create(heap_path, &options, &heap) == HF_INVALID_ARGUMENT);
    EXPECT(strstr(hf_errormsg(), "domain") != NULL);
    REQUIRE(hf_create(heap_path, &longer.known, &heap) == HF_OK);
    EXPECT(hf_create(heap_path, NULL, &heap) == HF_ALREADY_EXISTS);
    EXPECT(hf_close(heap) == HF_OK);
    /* A program of a version whose struct ended before `domain`: what lies behind is not read. */
    options.size = offsetof(hf_options, domain);
    REQUIRE(hf_open(heap_path, &options, &heap) == HF_OK);
    EXPECT(hf_close(heap) == HF_OK);
}

static void test_hardened(void) {
    hf_options options = HF_OPTIONS_INIT;
    hf_heap* heap = NULL;
    void* first = NULL;
    void* second = NULL;
    hf_statistics numbers = HF_STATISTICS_INIT;
    options.segment_size = 2u << 20u;
    options.hardened = 1;
    EXPECT(hf_create(copy_path, &options, &heap) == HF_OK);
    REQUIRE(heap != NULL);
    first = hf_allocate(heap, 100);
    EXPECT(first != NULL);
    EXPECT(hf_free(heap, first) == HF_OK);
    for (int i = 0; i < 100; ++i) { /* it is in quarantine */
        second = hf_allocate(heap, 100);
        EXPECT(second != NULL && second != first);
        EXPECT(hf_free(heap, second) == HF_OK);
        EXPECT(hf_free(heap, first) == HF_BAD_ADDRESS);
    }
    EXPECT(hf_get_statistics(heap, &numbers) == HF_OK);
    EXPECT(numbers.guard_ranges >= 1);
    numbers.size = offsetof(hf_statistics, guard_ranges); /* a program of a version whose struct ended before it */
    numbers.guard_ranges = 77;
    EXPECT(hf_get_statistics(heap, &numbers) == HF_OK);
    EXPECT(numbers.guard_ranges == 77);
    EXPECT(hf_close(heap) == HF_OK);
    remove_if_there(copy_path);
}

static void test_cache_lines(void) {
    hf_options options = HF_OPTIONS_INIT;
    hf_heap* heap = NULL;
    options.segment_size = 2u << 20u;
    options.separate_cache_lines = 1;
    EXPECT(hf_create(copy_path, &options, &heap) == HF_OK);
    REQUIRE(heap != NULL);
    EXPECT(hf_usable_size(heap, hf_allocate(heap, 8)) == 64);
    EXPECT(hf_usable_size(heap, hf_allocate(heap, 130)) == 192);
    EXPECT(hf_close(heap) == HF_OK);
    remove_if_there(copy_path);
}

static void test_memory(hf_heap* heap) {
    int outside = 0;
    char* const small = hf_allocate(heap, 100);
    char* const aligned = hf_allocate_aligned(heap, 100, 4096);
    char* const big = hf_allocate(heap, 5u << 20);
    REQUIRE(small != NULL && aligned != NULL && big != NULL);
    memset(small, 1, 100);
    memset(big, 2, 5u << 20);
    EXPECT((uintptr_t)aligned % 4096 == 0);
    EXPECT(hf_usable_size(heap, small) >= 100);
    EXPECT(hf_contains(heap, big) == 1);
    EXPECT(hf_contains(heap, &outside) == 0);
    EXPECT(hf_usable_size(heap, &outside) == 0);
    EXPECT(hf_errorcode() == HF_BAD_ADDRESS);
    EXPECT(hf_free(heap, &outside) == HF_BAD_ADDRESS);
    EXPECT(hf_free(heap, small + 1) == HF_BAD_ADDRESS);
    EXPECT(hf_pin(heap, &outside, sizeof outside) == HF_BAD_ADDRESS);
    EXPECT(hf_unpin(heap, small, 100) == HF_BAD_ADDRESS);
    EXPECT(hf_pin(heap, small, 100) == HF_OK && hf_pin(heap, big + 100, 1u << 20) == HF_OK);
    EXPECT(hf_commit(heap) == HF_OK && small[99] == 1 && big[5000] == 2);
    EXPECT(hf_free(heap, small) == HF_BAD_ADDRESS && strstr(hf_errormsg(), "pinned") != NULL);
    EXPECT(hf_unpin(heap, small, 100) == HF_OK && hf_unpin(heap, big + 100, 1u << 20) == HF_OK);
    EXPECT(hf_free(heap, small) == HF_OK);
    EXPECT(hf_free(heap, small) == HF_BAD_ADDRESS);
    EXPECT(hf_free(heap, aligned) == HF_OK);
    EXPECT(hf_free(heap, big) == HF_OK);
    EXPECT(hf_free(heap, NULL) == HF_OK);
    EXPECT(hf_allocate(heap, 0) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    EXPECT(hf_allocate_aligned(heap, 8, 3) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    EXPECT(hf_allocate(heap, SIZE_MAX / 2) == NULL);
}

static int count_objects(const hf_object_info* object, void* context) {
    (void)object;
    ++*(int*)context;
    return 0;
}

static int stop_at_first(const hf_object_info* object, void* context) {
    (void)object;
    ++*(int*)context;
    return 1;
}

static int look_at_numbers(const hf_object_info* object, void* context) {
    EXPECT(strcmp(object->name, "numbers") == 0);
    EXPECT(object->kind == HF_NAMED);
    EXPECT(object->count == 10);
    EXPECT(strcmp(object->type, "long") == 0);
    EXPECT(object->element_size == sizeof(long));
    EXPECT(strcmp(object->description, "ten numbers") == 0);
    *(void**)context = object->address;
    return 0;
}

static uint64_t allocated_blocks(const hf_heap* heap) {
    hf_statistics statistics = HF_STATISTICS_INIT;
    EXPECT(hf_get_statistics(heap, &statistics) == HF_OK);
    return statistics.allocated_blocks;
}

static void test_objects(hf_heap* heap) {
    void* address = NULL;
    void* again = NULL;
    size_t count = 0;
    int created = -1;
    int visits = 0;
    EXPECT(hf_object_create(heap, "numbers", "long", sizeof(long), 10, &address) == HF_OK);
    REQUIRE(address != NULL);
    for (int i = 0; i < 10; ++i) {
        EXPECT(((long*)address)[i] == 0);
        ((long*)address)[i] = i;
    }
    EXPECT(hf_object_create(heap, "numbers", "long", sizeof(long), 10, &again) == HF_NAME_EXISTS);
    EXPECT(hf_free(heap, address) == HF_BAD_ADDRESS); /* was: freed, and the directory still named it */
    EXPECT(strstr(hf_errormsg(), "object") != NULL);
    const uint64_t blocks = allocated_blocks(heap);
    EXPECT(hf_realloc(heap, address, 1000000) == NULL && allocated_blocks(heap) == blocks);
    EXPECT(again == NULL);
    EXPECT(hf_object_find(heap, "numbers", "long", sizeof(long), &again, &count) == HF_OK);
    EXPECT(again == address && count == 10);
    EXPECT(hf_object_find(heap, "numbers", "short", sizeof(short), &again, NULL) == HF_TYPE_MISMATCH);
    EXPECT(hf_object_find(heap, "numbers", "long", 1, &again, NULL) == HF_TYPE_MISMATCH);
    EXPECT(hf_object_find(heap, "nothing", "long", sizeof(long), NULL, NULL) == HF_NOT_FOUND);
    EXPECT(strstr(hf_errormsg(), "nothing") != NULL);
    EXPECT(hf_object_find(heap, hf_anonymous_instance, "long", sizeof(long), NULL, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_object_create(heap, "zero", "long", 0, 1, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_object_create(heap, "zero", "long", 8, 0, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_object_create(heap, "absurd", "long", SIZE_MAX / 2, 3, NULL) != HF_OK);
    EXPECT(hf_object_create(heap, "", "long", 8, 1, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_object_describe(heap, address, "ten numbers") == HF_OK);
    EXPECT(hf_object_at(heap, address, look_at_numbers, &again) == HF_OK);
    EXPECT(again == address);
    EXPECT(hf_object_at(heap, (char*)address + 1, look_at_numbers, &again) == HF_BAD_ADDRESS);

    EXPECT(hf_object_find_or_create(heap, hf_unique_instance, "node", sizeof(node), 1, &address, &created) == HF_OK);
    EXPECT(created == 1);
    EXPECT(hf_object_find_or_create(heap, hf_unique_instance, "node", sizeof(node), 1, &again, &created) == HF_OK);
    EXPECT(created == 0 && again == address);
    EXPECT(hf_object_create(heap, hf_anonymous_instance, "node", sizeof(node), 1, &address) == HF_OK);
    EXPECT(hf_object_create(heap, hf_anonymous_instance, "node", sizeof(node), 1, NULL) == HF_OK);
    EXPECT(hf_object_iterate(heap, HF_ANONYMOUS, count_objects, &visits) == HF_OK);
    EXPECT(visits == 2);
    EXPECT(hf_object_iterate(heap, HF_ANONYMOUS, stop_at_first, &visits) == HF_OK);
    EXPECT(visits == 3);
    EXPECT(hf_object_iterate(heap, (hf_kind)7, count_objects, &visits) == HF_INVALID_ARGUMENT);
    EXPECT(hf_object_destroy_at(heap, address) == HF_OK);
    EXPECT(hf_object_destroy_at(heap, address) == HF_BAD_ADDRESS);
    EXPECT(hf_object_destroy(heap, hf_unique_instance, "node", sizeof(node)) == HF_OK);
    EXPECT(hf_object_destroy(heap, hf_unique_instance, "node", sizeof(node)) == HF_NOT_FOUND);
}

static void build_list(hf_heap* heap) {
    node* previous = NULL;
    for (int i = 0; i < 100; ++i) {
        node* const one = hf_allocate(heap, sizeof(node));
        REQUIRE(one != NULL);
        memset(one, 0, sizeof *one);
        EXPECT(hf_ptr_get(&one->next) == NULL);
        one->value = i;
        hf_ptr_set(&one->next, previous);
        EXPECT(hf_ptr_get(&one->next) == previous);
        previous = one;
    }
    EXPECT(hf_root_set(heap, 7, previous) == HF_OK);
    EXPECT(hf_root_set(heap, 7, &failures) == HF_BAD_ADDRESS);
    EXPECT(hf_root_set(heap, HF_ROOT_COUNT, previous) == HF_INVALID_ARGUMENT);
    EXPECT(hf_root_get(heap, 8) == NULL);
}

static void expect_list(const hf_heap* heap) {
    int expected = 99;
    for (const node* one = hf_root_get(heap, 7); one != NULL; one = hf_ptr_get(&one->next)) {
        EXPECT(one->value == expected);
        --expected;
    }
    EXPECT(expected == -1);
}

static void print_problem(const char* problem, void* context) {
    (void)context;
    fprintf(stderr, "%s\n", problem);
}

static void expect_sound(const hf_heap* heap) {
    hf_statistics numbers = HF_STATISTICS_INIT;
    size_t problems = 1;
    char uuid[HF_UUID_SIZE];
    EXPECT(hf_check(heap, 1, &problems, print_problem, NULL) == HF_OK);
    EXPECT(problems == 0);
    EXPECT(hf_get_statistics(heap, &numbers) == HF_OK);
    EXPECT(numbers.size == sizeof numbers);
    EXPECT(numbers.named_objects == 1);
    EXPECT(numbers.anonymous_objects == 1);
    EXPECT(numbers.allocated_blocks >= 100);
    EXPECT(numbers.commit_sequence > 0);
    numbers.size = 0;
    EXPECT(hf_get_statistics(heap, &numbers) == HF_INVALID_ARGUMENT);
    EXPECT(hf_uuid(heap, uuid) == HF_OK);
    EXPECT(strlen(uuid) == HF_UUID_SIZE - 1);
}

/* Of a heap that is open for writing. */
static void expect_readers_beside(hf_heap* writer) {
    hf_heap* reader = NULL;
    hf_refresh_report report = HF_REFRESH_REPORT_INIT;
    uint64_t before = 0;
    int changed = 1;
    void* object = NULL;
    REQUIRE(hf_open_read_only(heap_path, NULL, &reader) == HF_OK);
    EXPECT(hf_refresh(reader, &report) == HF_OK && report.commits == 0);
    before = report.version;
    EXPECT(hf_wait_for_change(reader, 1000, &changed) == HF_OK && changed == 0);
    EXPECT(hf_object_create(writer, "beside", "long", sizeof(long), 1, NULL) == HF_OK);
    EXPECT(hf_commit(writer) == HF_OK);
    EXPECT(hf_object_find(reader, "beside", "long", sizeof(long), &object, NULL) == HF_NOT_FOUND);
    EXPECT(hf_wait_for_change(reader, UINT64_MAX, &changed) == HF_OK && changed == 1);
    EXPECT(hf_refresh(reader, &report) == HF_OK);
    EXPECT(report.commits == 1 && report.version == before + 1);
    EXPECT(hf_object_find(reader, "beside", "long", sizeof(long), &object, NULL) == HF_OK);
    EXPECT(hf_refresh(reader, NULL) == HF_OK);
    EXPECT(hf_refresh(NULL, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_close(reader) == HF_OK);
    EXPECT(hf_object_destroy(writer, "beside", "long", sizeof(long)) == HF_OK);
    EXPECT(hf_commit(writer) == HF_OK);
}

static void test_heap_lives_on(void) {
    hf_options elsewhere = HF_OPTIONS_INIT;
    hf_heap* heap = NULL;
    void* first_base = NULL;
    REQUIRE(hf_open(heap_path, NULL, &heap) == HF_OK);
    first_base = hf_base(heap);
    EXPECT(first_base != NULL);
    test_memory(heap);
    test_objects(heap);
    build_list(heap);
    EXPECT(hf_commit(heap) == HF_OK);
    expect_sound(heap);
    EXPECT(hf_root_set(heap, 7, NULL) == HF_OK);
    EXPECT(hf_discard(heap) == HF_OK);

    elsewhere.reservation = (uint64_t)1 << 32;
#if defined(HOLDFAST_UNDER_QEMU)
    elsewhere.base_address = (char*)first_base + ((size_t)1 << 36); /* its mappings grow upwards: free */
#else
    elsewhere.base_address = (char*)first_base - ((size_t)1 << 36); /* mappings grow downwards: free */
#endif
    REQUIRE(hf_open(heap_path, &elsewhere, &heap) == HF_OK);
    EXPECT(hf_base(heap) == elsewhere.base_address);
    expect_list(heap);
    expect_sound(heap);
    EXPECT(hf_snapshot(heap, copy_path) == HF_OK);
    EXPECT(hf_snapshot(heap, copy_path) == HF_ALREADY_EXISTS);
    expect_readers_beside(heap);
    EXPECT(hf_close(heap) == HF_OK);
    EXPECT(hf_consistent(heap_path) == 1);

    REQUIRE(hf_open_read_only(copy_path, NULL, &heap) == HF_OK);
    expect_list(heap);
    EXPECT(hf_allocate(heap, 8) == NULL);
    EXPECT(hf_errorcode() == HF_READ_ONLY);
    EXPECT(hf_object_create(heap, "new", "long", 8, 1, NULL) == HF_READ_ONLY);
    EXPECT(hf_root_set(heap, 1, NULL) == HF_READ_ONLY);
    EXPECT(hf_root(heap, 1) == NULL && hf_errorcode() == HF_READ_ONLY);
    {
        void* object = NULL;
        EXPECT(hf_object_find(heap, "numbers", "long", sizeof(long), &object, NULL) == HF_OK);
        EXPECT(hf_object_describe(heap, object, "changed") == HF_READ_ONLY); /* was: changed until hf_close */
    }
    EXPECT(hf_close(heap) == HF_OK);
    EXPECT(hf_remove(copy_path) == HF_OK);
    EXPECT(hf_copy(heap_path, copy_path) == HF_OK);
    REQUIRE(hf_open_or_create(copy_path, NULL, &heap) == HF_OK);
    expect_list(heap);
    EXPECT(hf_close(heap) == HF_OK);
}

int main(int count, char** arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: c_api_test DIRECTORY\n");
        return EXIT_FAILURE;
    }
    (void)mkdir(arguments[1], 0777);
    (void)snprintf(heap_path, sizeof heap_path, "%s/c.hf", arguments[1]);
    (void)snprintf(copy_path, sizeof copy_path, "%s/copy.hf", arguments[1]);
    remove_if_there(heap_path);
    remove_if_there(copy_path);
    test_errors_are_told();
    test_segments_in_two_places();
    test_options_are_versioned();
    test_hardened();
    test_cache_lines();
    test_heap_lives_on();
    remove_if_there(heap_path);
    remove_if_there(copy_path);
    printf("%d failures\n", failures);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
