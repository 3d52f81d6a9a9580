/* Copies the pool of before.c into a heap for after.c. The heap is made whole, or a crash leaves one without notes.
 *
 *     convert POOL HEAP
 *
 * The way of all such programs: a copy of each object, and where each one went; then the pointers of the copies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "notes.h"
#include "pool.h"

struct move {
    uint64_t from; /* in the pool */
    struct note* to;
};

static int by_place(const void* a, const void* b) {
    const uint64_t first = ((const struct move*)a)->from;
    const uint64_t second = ((const struct move*)b)->from;
    return first < second ? -1 : first > second;
}

static struct note* moved(const struct move* moves, size_t count, PMEMoid from) {
    const struct move wanted = {from.off, NULL};
    const struct move* found = OID_IS_NULL(from) ? NULL : bsearch(&wanted, moves, count, sizeof *moves, by_place);
    return found == NULL ? NULL : found->to;
}

static int copy(PMEMobjpool* pool, hf_heap* heap, struct move* moves, size_t count) {
    TOID(struct pool_note) each;
    size_t done = 0;
    POBJ_FOREACH_TYPE(pool, each) {
        struct note* made = hf_calloc(heap, 1, sizeof *made);
        if (made == NULL || done == count) {
            return 1;
        }
        made->stars = D_RO(each)->stars;
        memcpy(made->text, D_RO(each)->text, sizeof made->text);
        moves[done++] = (struct move){each.oid.off, made};
    }
    qsort(moves, done, sizeof *moves, by_place);
    POBJ_FOREACH_TYPE(pool, each) {
        HF_SET(moved(moves, done, each.oid)->next, moved(moves, done, D_RO(each)->next.oid));
    }
    struct notes* root = HF_OBJECT(heap, "notes", struct notes);
    if (root == NULL) {
        return 1;
    }
    TOID(struct pool_notes) from = POBJ_ROOT(pool, struct pool_notes);
    HF_SET(root->first, moved(moves, done, D_RO(from)->first.oid));
    root->count = D_RO(from)->count;
    return hf_commit(heap) != HF_OK;
}

static size_t count_notes(PMEMobjpool* pool) {
    TOID(struct pool_note) each;
    size_t count = 0;
    POBJ_FOREACH_TYPE(pool, each) { ++count; }
    return count;
}

int main(int count, char** arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: convert POOL HEAP\n");
        return 2;
    }
    PMEMobjpool* pool = pmemobj_open(arguments[1], POBJ_LAYOUT_NAME(notes));
    if (pool == NULL) {
        fprintf(stderr, "convert: %s\n", pmemobj_errormsg());
        return 1;
    }
    hf_heap* heap = NULL; /* in durability commit: what is not committed was never there */
    if (hf_create(arguments[2], NULL, &heap) != HF_OK) {
        fprintf(stderr, "convert: %s\n", hf_errormsg());
        pmemobj_close(pool);
        return 1;
    }
    const size_t notes = count_notes(pool);
    struct move* moves = calloc(notes + 1, sizeof *moves);
    const int failed = moves == NULL || copy(pool, heap, moves, notes) != 0;
    if (failed) {
        fprintf(stderr, "convert: %s\n", hf_errormsg());
    } else {
        printf("%zu notes\n", notes);
    }
    free(moves);
    pmemobj_close(pool);
    return hf_close(heap) != HF_OK || failed;
}
