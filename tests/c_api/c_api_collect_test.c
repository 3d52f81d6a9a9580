/* Collection, types and deferred frees as a C11 program uses them. Usage: c_api_collect_test DIRECTORY, which is
 * created and emptied. */
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

struct node {
    hf_ptr next;
    uint64_t number;
    hf_ptr other;
};

static struct node* make(hf_heap* heap, hf_ptr* at) {
    hf_traits traits = HF_TRAITS_INIT;
    traits.zeroed = 1;
    traits.type = 1;
    struct node* const made = hf_allocate_to(heap, at, sizeof(struct node), &traits);
    REQUIRE(made != NULL);
    return made;
}

static uint64_t collect(hf_heap* heap, uint32_t precise, uint32_t dry_run) {
    hf_collect_options options = HF_COLLECT_OPTIONS_INIT;
    options.precise = precise;
    options.dry_run = dry_run;
    options.threads = 2;
    hf_collect_report report = HF_COLLECT_REPORT_INIT;
    EXPECT(hf_collect(heap, &options, &report) == HF_OK);
    EXPECT(report.blocks_reached != 0);
    EXPECT(report.words_scanned != 0);
    EXPECT(report.slabs_freed + report.extents_freed + report.slabs_quarantined == 0);
    return report.blocks_freed;
}

static void test_report_of_large_blocks(hf_heap* heap) {
    EXPECT(hf_allocate(heap, 100000) != NULL);
    EXPECT(hf_allocate(heap, 300000) != NULL);
    hf_collect_report report = HF_COLLECT_REPORT_INIT;
    EXPECT(hf_collect(heap, NULL, &report) == HF_OK);
    EXPECT(report.blocks_freed == 2);
    EXPECT(report.extents_freed == 2);
}

static void show_next(void* block, size_t bytes, hf_pointer_sink* sink, void* context) {
    EXPECT(bytes >= sizeof(struct node));
    ++*(int*)context;
    hf_show_pointer(sink, &((struct node*)block)->next);
}

static void test_types(hf_heap* heap) {
    struct node* const first = make(heap, hf_root(heap, 0));
    make(heap, &first->next);
    make(heap, &first->other);
    make(heap, hf_root(heap, 1));
    EXPECT(hf_root_set(heap, 1, NULL) == HF_OK);
    EXPECT(collect(heap, 0, 1) == 1);
    const hf_pointer_field fields[] = {{offsetof(struct node, next), 0}, {offsetof(struct node, other), 0}};
    EXPECT(hf_register_type(heap, 1, sizeof(struct node), sizeof(struct node), fields, 2, "node") == HF_OK);
    EXPECT(hf_register_type(heap, 1, sizeof(struct node), 4, fields, 2, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_register_type(heap, 1, 8, 8, NULL, 1, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(collect(heap, 1, 0) == 1);
    int visits = 0;
    EXPECT(hf_register_visitor(heap, 1, show_next, &visits) == HF_OK);
    EXPECT(collect(heap, 1, 1) == 1);
    EXPECT(visits == 2);
    EXPECT(hf_register_visitor(heap, 1, NULL, NULL) == HF_OK);
    EXPECT(collect(heap, 1, 1) == 0);
    EXPECT(hf_collect(heap, NULL, NULL) == HF_OK);
    EXPECT(hf_collect(NULL, NULL, NULL) == HF_INVALID_ARGUMENT);
    hf_show_pointer(NULL, NULL);
    hf_show_address(NULL, NULL);
}

static int keep_back(void* block, void* context) {
    *(void**)context = block;
    return 1;
}

static void test_deferred_frees(hf_heap* heap) {
    void* kept = NULL;
    void* const block = hf_allocate(heap, 100);
    EXPECT(hf_set_free_filter(heap, keep_back, &kept) == HF_OK);
    EXPECT(hf_free(heap, block) == HF_OK);
    EXPECT(kept == block && hf_usable_size(heap, block) >= 100);
    EXPECT(hf_free_now(heap, block) == HF_OK);
    EXPECT(hf_free_now(heap, block) == HF_BAD_ADDRESS);
    EXPECT(hf_set_free_filter(heap, NULL, NULL) == HF_OK);
}

/* Was: any allocated block was published, a published one was cancelled, and what was reserved stayed allocated. */
static void test_reservations(hf_heap* heap) {
    hf_ptr* const root = hf_root(heap, 3);
    hf_ptr* const other = hf_root(heap, 4);
    const size_t sizes[] = {64, 100000};
    for (size_t i = 0; i < 2; ++i) {
        void* const reserved = hf_reserve(heap, sizes[i], NULL);
        EXPECT(reserved != NULL && hf_free(heap, reserved) == HF_BAD_ADDRESS);
        EXPECT(hf_publish(heap, root, reserved) == HF_OK);
        EXPECT(hf_publish(heap, other, reserved) == HF_BAD_ADDRESS && hf_ptr_get(other) == NULL);
        EXPECT(hf_cancel(heap, reserved) == HF_BAD_ADDRESS && hf_usable_size(heap, reserved) >= sizes[i]);
        EXPECT(hf_free_from(heap, root, NULL) == HF_OK && hf_ptr_get(root) == NULL);
        EXPECT(hf_cancel(heap, hf_reserve(heap, sizes[i], NULL)) == HF_OK);
    }
}

/* A program dies; the root leads to the first of three blocks, a number in that to the second. */
static void crash(const char* path, const hf_options* with) {
    const hf_options options = *with;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const hf_pointer_field fields[] = {{offsetof(struct node, next), 0}, {offsetof(struct node, other), 0}};
        hf_traits traits = HF_TRAITS_INIT;
        traits.type = 1;
        traits.zeroed = 1;
        hf_heap* heap = NULL;
        REQUIRE(hf_create(path, &options, &heap) == HF_OK);
        REQUIRE(hf_register_type(heap, 1, sizeof(struct node), sizeof(struct node), fields, 2, "node") == HF_OK);
        struct node* const first = hf_allocate_with(heap, sizeof(struct node), &traits);
        struct node* const second = hf_allocate_with(heap, sizeof(struct node), &traits);
        REQUIRE(first != NULL && second != NULL && hf_allocate_with(heap, sizeof(struct node), &traits) != NULL);
        REQUIRE(hf_root_set(heap, 0, first) == HF_OK);
        hf_ptr_set((hf_ptr*)&first->number, second);
        (void)raise(SIGKILL);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

static void test_precise_recovery(const char* path, hf_options options) {
    options.durability = HF_DURABILITY_COLLECT;
    options.accept_process_crash_only = 1;
    crash(path, &options);
    options.precise_recovery = 1;
    hf_heap* heap = NULL;
    hf_collect_report report = HF_COLLECT_REPORT_INIT;
    REQUIRE(hf_open(path, &options, &heap) == HF_OK);
    EXPECT(hf_get_recovery_trace(heap, &report) == HF_OK);
    EXPECT(report.blocks_reached == 1);
    EXPECT(hf_get_recovery_trace(heap, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_close(heap) == HF_OK);
    REQUIRE(hf_open(path, &options, &heap) == HF_OK);
    EXPECT(hf_get_recovery_trace(heap, &report) == HF_NOT_FOUND);
    uint64_t compared = 7;
    EXPECT(hf_last_comparison(heap, &compared, NULL) == HF_OK && compared == 0);
    EXPECT(hf_close(heap) == HF_OK);
    EXPECT(hf_remove(path) == HF_OK);
}

static hf_code refuse(hf_offline* heap, void* context) {
    *(size_t*)context = 0;
    EXPECT(hf_offline_address(heap, (size_t*)context) != NULL);
    return HF_NOT_FOUND;
}

/* The root changes to the block that only a number led to. */
static hf_code restore(hf_offline* heap, void* context) {
    struct node* const first = hf_ptr_get(hf_offline_root(heap, 0));
    void* const second = hf_ptr_get((hf_ptr*)&first->number);
    EXPECT(hf_offline_keep(heap, second) == HF_OK);
    EXPECT(hf_offline_keep(heap, context) == HF_BAD_ADDRESS);
    EXPECT(hf_offline_root(heap, HF_ROOT_COUNT) == NULL && hf_errorcode() == HF_INVALID_ARGUMENT);
    hf_ptr_set(hf_offline_root(heap, 0), NULL);
    return HF_OK;
}

static void test_roots_before_the_trace(const char* path, hf_options options) {
    options.durability = HF_DURABILITY_COLLECT;
    options.accept_process_crash_only = 1;
    crash(path, &options);
    size_t bytes = 0;
    options.before_trace = refuse;
    options.before_trace_context = &bytes;
    hf_heap* heap = NULL;
    EXPECT(hf_open(path, &options, &heap) == HF_NOT_FOUND && strstr(hf_errormsg(), "before_trace") != NULL);
    EXPECT(bytes >= (size_t)2 << 20);
    options.before_trace = restore;
    options.precise_recovery = 1;
    hf_collect_report report = HF_COLLECT_REPORT_INIT;
    REQUIRE(hf_open(path, &options, &heap) == HF_OK);
    EXPECT(hf_get_recovery_trace(heap, &report) == HF_OK && report.blocks_reached == 1);
    EXPECT(hf_root_get(heap, 0) == NULL);
    EXPECT(hf_close(heap) == HF_OK);
    EXPECT(hf_remove(path) == HF_OK);
}

int main(int count, char** arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: c_api_collect_test DIRECTORY\n");
        return EXIT_FAILURE;
    }
    (void)mkdir(arguments[1], 0777);
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/c.hf", arguments[1]);
    (void)hf_remove(path);
    hf_options options = HF_OPTIONS_INIT;
    options.segment_size = (uint64_t)2 << 20;
    options.reservation = (uint64_t)1 << 30;
    hf_heap* heap = NULL;
    REQUIRE(hf_create(path, &options, &heap) == HF_OK);
    test_types(heap);
    test_report_of_large_blocks(heap);
    test_deferred_frees(heap);
    test_reservations(heap);
    EXPECT(hf_close(heap) == HF_OK);
    EXPECT(hf_remove(path) == HF_OK);
    test_precise_recovery(path, options);
    test_roots_before_the_trace(path, options);
    printf("%d failures\n", failures);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
