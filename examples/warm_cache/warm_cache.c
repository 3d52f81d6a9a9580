/* warm_cache.cpp in C: an array of entries in a heap, of which the least recently used one goes.
 *
 * An array has no pointers, so that nothing in it depends on where the heap is mapped. */
#include <holdfast/holdfast.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_ENTRIES = 1024 };

struct cache {
    uint64_t clock; /* counts the uses */
    struct entry {
        uint64_t number;
        uint64_t divisors;
        uint64_t used; /* the clock at its last use; 0: empty */
    } entries[MAX_ENTRIES];
};

static uint64_t count_divisors(uint64_t number) {
    uint64_t count = 0;
    for (uint64_t divisor = 1; divisor <= number; ++divisor) {
        count += number % divisor == 0 ? 1U : 0U;
    }
    return count;
}

/* The entry of the number. Where there is none, the one to overwrite: the least recently used of `capacity`. */
static struct entry* find(struct cache* cache, size_t capacity, uint64_t number) {
    struct entry* oldest = &cache->entries[0];
    for (size_t i = 0; i < capacity; ++i) {
        struct entry* entry = &cache->entries[i];
        if (entry->used != 0 && entry->number == number) {
            return entry;
        }
        oldest = entry->used < oldest->used ? entry : oldest;
    }
    return oldest;
}

int main(int argc, char** argv) {
    size_t capacity = argc > 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (capacity == 0 || capacity > MAX_ENTRIES) {
        fprintf(stderr, "usage: warm_cache HEAP CAPACITY NUMBER... with a capacity from 1 to %d\n", MAX_ENTRIES);
        return 2;
    }
    hf_heap* heap = NULL;
    struct cache* cache = NULL;
    if (hf_open_or_create(argv[1], NULL, &heap) != HF_OK ||
        hf_object_find_or_create(heap, "divisors", "cache", sizeof *cache, 1, (void**)&cache, NULL) != HF_OK) {
        fprintf(stderr, "warm_cache: %s\n", hf_errormsg());
        return 1;
    }
    for (int i = 3; i < argc; ++i) {
        const uint64_t number = strtoull(argv[i], NULL, 10);
        struct entry* entry = find(cache, capacity, number);
        const int known = entry->used != 0 && entry->number == number;
        if (!known) {
            entry->number = number;
            entry->divisors = count_divisors(number);
        }
        entry->used = ++cache->clock;
        printf("%llu has %llu divisors (%s)\n", (unsigned long long)number, (unsigned long long)entry->divisors,
               known ? "cached" : "computed");
    }
    if (hf_close(heap) != HF_OK) { /* commits */
        fprintf(stderr, "warm_cache: %s\n", hf_errormsg());
        return 1;
    }
    return 0;
}
