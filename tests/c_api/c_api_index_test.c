/* Ordered indexes as a C11 program uses them. Usage: c_api_index_test DIRECTORY, which is created and emptied. */
#define _POSIX_C_SOURCE 200809L
#include <sys/stat.h>

#include <holdfast/index.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static char heap_path[1024];

static hf_heap* open_heap(void) {
    hf_options options = HF_OPTIONS_INIT;
    options.durability = HF_DURABILITY_ATOMIC;
    options.domain = HF_DOMAIN_EMULATED;
    options.accept_process_crash_only = 1;
    options.segment_size = (uint64_t)2 << 20;
    options.reservation = (uint64_t)1 << 30;
    hf_heap* heap = NULL;
    REQUIRE(hf_open_or_create(heap_path, &options, &heap) == HF_OK);
    return heap;
}

struct seen {
    uint64_t count;
    uint64_t last;
    uint64_t most;
    int ascends;
};
static int see(uint64_t key, uint64_t value, void* context) {
    struct seen* seen = context;
    EXPECT(value == key * 2);
    EXPECT(seen->count == 0 || (seen->ascends ? key > seen->last : key < seen->last));
    seen->last = key;
    return ++seen->count == seen->most;
}

static int add(uint64_t key, uint64_t value, void* context) {
    uint64_t* sum = context;
    EXPECT(value == key * 2);
    *sum += value;
    return 0;
}

static void numbers_are_there_again(void) {
    hf_heap* heap = open_heap();
    hf_index* index = NULL;
    REQUIRE(hf_index_open(heap, "numbers", &index) == HF_OK);
    hf_index* again = NULL;
    EXPECT(hf_index_open(heap, "numbers", &again) == HF_LOCKED);
    for (uint64_t i = 0; i < 1000; ++i) {
        EXPECT(hf_index_insert(index, i * 7919 % 1000, i * 7919 % 1000 * 2) == HF_OK);
    }
    EXPECT(hf_index_insert(index, 5, 1) == HF_ALREADY_EXISTS);
    EXPECT(hf_index_update(index, 1000, 1) == HF_NOT_FOUND);
    EXPECT(hf_index_put(index, 1000, 2000) == HF_OK);
    EXPECT(hf_index_remove(index, 500) == HF_OK);
    EXPECT(hf_index_remove(index, 500) == HF_NOT_FOUND);
    EXPECT(hf_close(heap) == HF_INVALID_ARGUMENT);
    EXPECT(strstr(hf_errormsg(), "1 open transactions or indexes") != NULL);
    hf_index_close(index);
    REQUIRE(hf_close(heap) == HF_OK);

    heap = open_heap();
    REQUIRE(hf_index_open(heap, "numbers", &index) == HF_OK);
    uint64_t value = 0;
    EXPECT(hf_index_find(index, 17, &value) == HF_OK && value == 34);
    EXPECT(hf_index_find(index, 500, &value) == HF_NOT_FOUND);
    EXPECT(hf_index_find(index, 17, NULL) == HF_OK);
    struct seen seen = {0, 0, 300, 1};
    EXPECT(hf_index_scan(index, 500, see, &seen) == HF_OK && seen.count == 300 && seen.last == 800);
    struct seen back = {0, 0, 0, 0};
    EXPECT(hf_index_scan_backward(index, 500, see, &back) == HF_OK && back.count == 500 && back.last == 0);
    EXPECT(hf_index_scan(index, 0, NULL, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_index_scan(index, UINT64_MAX, NULL, NULL) == HF_INVALID_ARGUMENT); /* no entry follows */
    uint64_t size = 0;
    EXPECT(hf_index_size(index, &size) == HF_OK && size == 1000);
    EXPECT(hf_index_check(index) == HF_OK);
    EXPECT(hf_index_clear(index) == HF_OK);
    EXPECT(hf_index_size(index, &size) == HF_OK && size == 0);
    hf_text_index* other = NULL;
    EXPECT(hf_text_index_open(heap, "numbers", &other) == HF_TYPE_MISMATCH);
    EXPECT(hf_index_destroy(heap, "numbers") == HF_LOCKED);
    hf_index_close(index);
    hf_index_close(NULL);
    EXPECT(hf_index_destroy(heap, "numbers") == HF_OK);
    EXPECT(hf_index_destroy(heap, "numbers") == HF_NOT_FOUND);
    EXPECT(hf_close(heap) == HF_OK);
}

static hf_bytes bytes_of(const char* text) {
    hf_bytes bytes = {text, strlen(text)};
    return bytes;
}
static int join(hf_bytes key, hf_bytes value, void* context) {
    char* all = context;
    strncat(all, key.data, key.size);
    strncat(all, value.data, value.size);
    return 0;
}

static void texts_have_any_length(void) {
    hf_heap* heap = open_heap();
    hf_text_index* index = NULL;
    REQUIRE(hf_text_index_open(heap, "texts", &index) == HF_OK);
    EXPECT(hf_text_index_insert(index, bytes_of("b"), bytes_of("2,")) == HF_OK);
    EXPECT(hf_text_index_put(index, bytes_of("a"), bytes_of("1,")) == HF_OK);
    EXPECT(hf_text_index_insert(index, bytes_of("a"), bytes_of("3,")) == HF_ALREADY_EXISTS);
    EXPECT(hf_text_index_update(index, bytes_of("c"), bytes_of("3,")) == HF_NOT_FOUND);
    EXPECT(hf_text_index_put(index, bytes_of("cc"), bytes_of("")) == HF_OK);
    EXPECT(hf_text_index_update(index, bytes_of("b"), bytes_of("20,")) == HF_OK);
    const hf_bytes none = {NULL, 0};
    char all[64] = "";
    EXPECT(hf_text_index_scan(index, none, join, all) == HF_OK && strcmp(all, "a1,b20,cc") == 0);
    all[0] = 0;
    EXPECT(hf_text_index_scan_backward(index, bytes_of("c"), join, all) == HF_OK && strcmp(all, "b20,a1,") == 0);
    char value[2] = {'x', 'x'};
    size_t size = 0;
    EXPECT(hf_text_index_find(index, bytes_of("b"), value, sizeof value, &size) == HF_OK && size == 3);
    EXPECT(memcmp(value, "20", 2) == 0);
    EXPECT(hf_text_index_find(index, bytes_of("d"), value, sizeof value, &size) == HF_NOT_FOUND);
    const hf_bytes wrong = {NULL, 1};
    EXPECT(hf_text_index_remove(index, wrong) == HF_INVALID_ARGUMENT);
    EXPECT(hf_text_index_remove(index, bytes_of("a")) == HF_OK);
    uint64_t entries = 0;
    EXPECT(hf_text_index_size(index, &entries) == HF_OK && entries == 2);
    EXPECT(hf_text_index_check(index) == HF_OK);
    EXPECT(hf_text_index_clear(index) == HF_OK);
    hf_text_index_close(index);
    EXPECT(hf_text_index_destroy(heap, "texts") == HF_OK);
    EXPECT(hf_close(heap) == HF_OK);
}

static void hash_indexes_do_the_same(void) {
    hf_heap* heap = open_heap();
    hf_hash_index* numbers = NULL;
    hf_text_hash_index* texts = NULL;
    REQUIRE(hf_hash_index_open(heap, "numbers", &numbers) == HF_OK);
    REQUIRE(hf_text_hash_index_open(heap, "texts", &texts) == HF_OK);
    for (uint64_t i = 0; i < 1000; ++i) {
        EXPECT(hf_hash_index_insert(numbers, i, i) == HF_OK);
    }
    EXPECT(hf_hash_index_insert(numbers, 5, 1) == HF_ALREADY_EXISTS);
    EXPECT(hf_hash_index_update(numbers, 5, 6) == HF_OK && hf_hash_index_put(numbers, 1000, 7) == HF_OK);
    EXPECT(hf_hash_index_remove(numbers, 1000) == HF_OK && hf_hash_index_remove(numbers, 1000) == HF_NOT_FOUND);
    uint64_t value = 0;
    EXPECT(hf_hash_index_find(numbers, 5, &value) == HF_OK && value == 6);
    for (uint64_t i = 0; i < 1000; ++i) {
        EXPECT(hf_hash_index_update(numbers, i, i * 2) == HF_OK);
    }
    uint64_t size = 0;
    EXPECT(hf_hash_index_size(numbers, &size) == HF_OK && size == 1000);
    uint64_t sum = 0;
    EXPECT(hf_hash_index_each(numbers, add, &sum) == HF_OK && sum == 999 * 1000);
    EXPECT(hf_hash_index_each(numbers, NULL, NULL) == HF_INVALID_ARGUMENT);
    EXPECT(hf_hash_index_check(numbers) == HF_OK && hf_hash_index_clear(numbers) == HF_OK);

    EXPECT(hf_text_hash_index_insert(texts, bytes_of("a"), bytes_of("1")) == HF_OK);
    EXPECT(hf_text_hash_index_put(texts, bytes_of("a"), bytes_of("22")) == HF_OK);
    EXPECT(hf_text_hash_index_update(texts, bytes_of("b"), bytes_of("1")) == HF_NOT_FOUND);
    char text[2];
    size_t length = 0;
    EXPECT(hf_text_hash_index_find(texts, bytes_of("a"), text, sizeof text, &length) == HF_OK && length == 2);
    char all[16] = "";
    EXPECT(hf_text_hash_index_each(texts, join, all) == HF_OK && strcmp(all, "a22") == 0);
    EXPECT(hf_text_hash_index_remove(texts, bytes_of("a")) == HF_OK);
    EXPECT(hf_text_hash_index_size(texts, &size) == HF_OK && size == 0);
    EXPECT(hf_text_hash_index_check(texts) == HF_OK && hf_text_hash_index_clear(texts) == HF_OK);
    hf_index* ordered = NULL;
    EXPECT(hf_index_open(heap, "numbers", &ordered) == HF_TYPE_MISMATCH);
    hf_hash_index_close(numbers);
    hf_text_hash_index_close(texts);
    EXPECT(hf_hash_index_destroy(heap, "numbers") == HF_OK && hf_text_hash_index_destroy(heap, "texts") == HF_OK);
    EXPECT(hf_close(heap) == HF_OK);
}

int main(int count, char** arguments) {
    if (count != 2) {
        return EXIT_FAILURE;
    }
    mkdir(arguments[1], 0700);
    snprintf(heap_path, sizeof heap_path, "%s/index.hf", arguments[1]);
    hf_remove(heap_path);
    numbers_are_there_again();
    texts_have_any_length();
    hash_indexes_do_the_same();
    EXPECT(hf_remove(heap_path) == HF_OK);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
